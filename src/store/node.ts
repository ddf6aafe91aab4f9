import { type ConnectionOptions, connect } from "./connection.ts";
import type { StoreNode } from "./nodes.ts";
import type { RedisPlace } from "./redis-options.ts";
import { Replicas } from "./replicas.ts";

/** How the connections to a node behave, and who is told of them. */
export interface NodeOptions extends Omit<ConnectionOptions, "silenceMs"> {
  /** How long a call may take, in milliseconds. */
  readonly timeoutMs: number;
  /** How many replicas must confirm a change; 0 for none. */
  readonly minReplicas?: number;
}

/** The share of the timeout for which one WAIT may hold up the changes behind it. */
const WAIT_SHARE = 0.8;

/**
 * Connects to a node. `opened` resolves when every connection is ready; it rejects with StoreMisconfigured when the
 * settings prevent that.
 */
export function openNode(name: string, place: RedisPlace, options: NodeOptions) {
  const { timeoutMs, minReplicas = 0 } = options;
  const open = () => connect(place, { ...options, silenceMs: Math.max(timeoutMs, 100) });
  const first = open();
  const second = minReplicas > 0 ? open() : first;
  const changes = second.connection;
  const node: StoreNode = {
    name,
    reads: first.connection,
    changes,
    replicas: minReplicas > 0 ? new Replicas(changes, minReplicas, timeoutMs * WAIT_SHARE) : undefined,
  };
  return { node, opened: Promise.all([first.opened, second.opened]) };
}
