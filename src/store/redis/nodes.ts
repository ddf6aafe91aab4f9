import { type ConnectionOptions, connect, type StoreConnection } from "./connection.ts";
import type { RedisPlace } from "./options.ts";
import { Replicas } from "./replicas.ts";

/** A node of Redis that makes changes, and the connections to it. */
export interface StoreNode {
  /** Where it is, for the log. */
  readonly name: string;
  /** The connection for everything but changes that wait for replicas. */
  readonly reads: StoreConnection;
  /**
   * The connection for changes. It is one of its own when changes wait for replicas, because WAIT delays every later
   * command of its connection.
   */
  readonly changes: StoreConnection;
  /** Undefined: replicas are not waited for. */
  readonly replicas: Replicas | undefined;
}

/**
 * Does something at a node.
 *
 * @param asking whether the node is to be asked for a key that is on its way to it (`send`)
 */
export type NodeWork<T> = (node: StoreNode, asking: boolean) => Promise<T>;

/** Redis in one of its shapes: which nodes there are, and which of them has a key. */
export interface StoreNodes {
  /**
   * Does something at the node that has a key. When that node redirects to another one, or cannot do it yet, it has
   * done nothing: it is done again there, or later.
   *
   * @param call once it is ended, nothing is done again
   * @throws NotSent when no node can be asked; else what the work throws
   */
  at<T>(key: string, work: NodeWork<T>, call: { readonly isEnded: boolean }): Promise<T>;
  /** The nodes that have keys, as far as they are known. */
  masters(): readonly StoreNode[];
  /** A key like `base` that a node has. */
  keyOf(node: StoreNode, base: string): string;
  /** Whether every node is known and connected. */
  isReady(): boolean;
  close(): void;
}

/** How the connections to a node behave, and who is told of them. */
export interface NodeOptions extends Omit<ConnectionOptions, "silenceMs" | "minReplicas"> {
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
  const open = () => connect(place, { ...options, minReplicas, silenceMs: Math.max(timeoutMs, 100) });
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

/** Whether a node's connections are ready. */
export function isNodeReady({ reads, changes }: StoreNode): boolean {
  return reads.isReady() && changes.isReady();
}

/** Closes the connections of a node. */
export function closeNode({ reads, changes }: StoreNode): void {
  reads.close();
  if (changes !== reads) changes.close();
}

/**
 * Redis with one master: a single node, or one behind Sentinels.
 *
 * @param onClose called when it is closed
 */
export function singleNode(node: StoreNode, onClose = () => {}): StoreNodes {
  return {
    at: (_key, work) => work(node, false),
    masters: () => [node],
    keyOf: (_node, base) => base,
    isReady: () => isNodeReady(node),
    close: () => {
      closeNode(node);
      onClose();
    },
  };
}
