import { setTimeout as pause } from "node:timers/promises";
import { MAX_CALLS } from "../../limits.ts";
import { isRefusal, NotSent } from "./commands.ts";
import type { NodeCall, StoreNode, StoreNodes } from "./nodes.ts";
import { SLOTS, slotOf, Topology, type TopologyOptions } from "./topology.ts";
import type { HostPort, RedisTarget } from "./url.ts";

/** How often a call is redirected without a pause. */
const QUICK_HOPS = 5;

/**
 * The pause before each further redirection, and before a retry while keys are on their way to another node, in
 * milliseconds.
 */
const PAUSE_MS = 25;

/** How long a redirected call waits for the connection to its new node, in milliseconds. */
const CONNECT_MS = 500;

/** How often it is looked whether that connection is there, in milliseconds. */
const CONNECTED_MS = 5;

/**
 * How many commands may wait for one node: half of the calls that a worker takes, so that a slow node leaves room for
 * the others.
 */
const MAX_OF_NODE = MAX_CALLS / 2;

/** The same for a node that has been silent for a while. */
const MAX_OF_SILENT_NODE = 256;

/** What a node answers when it did not carry out a command. */
type Redirection =
  | { readonly kind: "moved" | "ask"; readonly slot: number; readonly to: HostPort }
  | { readonly kind: "wait" };

/**
 * Redis Cluster: many nodes, each with a share of the slots. Each has connections of its own as a single node has, so
 * that a slow or silent one holds up nobody else. What a node sends on to another (MOVED, ASK) has not been carried out
 * and is sent there; what was cut off is not sent again.
 */
export class ClusterNodes implements StoreNodes {
  readonly #topology: Topology;

  constructor(target: RedisTarget, options: TopologyOptions) {
    this.#topology = new Topology(target, options);
  }

  at<T>(key: string, call: NodeCall<T>): Promise<T> {
    const slot = slotOf(key);
    const node = this.#topology.nodeOf(slot);
    return this.#attempt(node, call, false).catch((error: unknown) => this.#sendOn(error, { slot, node }, call));
  }

  masters(): readonly StoreNode[] {
    return this.#topology.masters();
  }

  keyOf(node: StoreNode, base: string): string {
    for (let i = 0; i < SLOTS; i++) {
      const key = `${base}:{${i}}`;
      if (this.#topology.nodeOf(slotOf(key)) === node) return key;
    }
    return base;
  }

  isReady(): boolean {
    return this.#topology.isWhole();
  }

  close(): void {
    this.#topology.close();
  }

  #attempt<T>(node: StoreNode | undefined, call: NodeCall<T>, asking: boolean): Promise<T> {
    if (!node?.isReady()) {
      this.#topology.refreshSoon();
      return Promise.reject(
        new NotSent(node ? `not connected to ${node.name}` : "no node of the Cluster has this slot"),
      );
    }
    for (const { redis, isSilent } of node.connections) {
      const { length } = redis.commandQueue;
      if (length >= MAX_OF_NODE || (length >= MAX_OF_SILENT_NODE && isSilent())) {
        return Promise.reject(new NotSent(`${node.name} is slow: ${length} commands wait for it`));
      }
    }
    return call.sendTo(node, asking);
  }

  async #sendOn<T>(first: unknown, from: { slot: number; node: StoreNode | undefined }, call: NodeCall<T>): Promise<T> {
    let error = first;
    let { node } = from;
    for (let hops = 1; ; hops++) {
      const redirection = redirectionOf(error);
      if (redirection === undefined) {
        if (isRefusal(error) && /^(CLUSTERDOWN|MASTERDOWN|LOADING|READONLY)/.test(error.message))
          this.#topology.refreshSoon();
        throw error;
      }
      if (redirection.kind === "wait" || hops > QUICK_HOPS) await pause(PAUSE_MS);
      if (redirection.kind === "wait") node = this.#topology.nodeOf(from.slot);
      else node = await this.#follow(redirection, node);
      if (call.isEnded) throw error;
      try {
        return await this.#attempt(node, call, redirection.kind === "ask");
      } catch (caught) {
        error = caught;
      }
    }
  }

  /** The node that a call is redirected to, once it is connected or `CONNECT_MS` have passed. */
  async #follow({ kind, slot, to }: Exclude<Redirection, { kind: "wait" }>, from: StoreNode | undefined) {
    // A node that does not know the name of the other leaves it out: it is the same host.
    const host = to.host || (from?.reads.redis.options.host ?? "");
    const node = this.#topology.open({ host, port: to.port });
    if (kind === "moved") this.#topology.moved(slot, node);
    const until = performance.now() + CONNECT_MS;
    while (!node.isReady() && performance.now() < until) await pause(CONNECTED_MS);
    return node;
  }
}

function redirectionOf(error: unknown): Redirection | undefined {
  if (!(error instanceof Error)) return undefined;
  const [word, slot, address = ""] = error.message.split(" ");
  if (isRefusal(error) && (word === "MOVED" || word === "ASK")) {
    const colon = address.lastIndexOf(":");
    const to = { host: address.slice(0, colon).replace(/^\[(.*)\]$/, "$1"), port: Number(address.slice(colon + 1)) };
    return { kind: word === "MOVED" ? "moved" : "ask", slot: Number(slot), to };
  }
  // A script that needs a key which is on its way to another node says so, before it has changed anything.
  const isOnItsWay = word === "TRYAGAIN" || (isRefusal(error) && error.message.includes("non local key"));
  return isOnItsWay ? { kind: "wait" } : undefined;
}
