import { setImmediate as nextTurn } from "node:timers/promises";
import { connect, type NodeOptions, type StoreConnection } from "./connection.ts";
import { NotConfirmed } from "./errors.ts";
import type { RedisDestination } from "./options.ts";

/** Something that is done at a node. */
export interface NodeCall<T> {
  /** Whether there is time to do it again. */
  readonly hasTime: boolean;
  /** @param asking whether the node is to be asked for a key that is on its way to it (`send`) */
  sendTo(node: StoreNode, asking: boolean): Promise<T>;
}

/** Redis in one of its shapes: which nodes there are, and which of them has a key. */
export interface StoreNodes {
  /**
   * Does something at the node that has a key. When that node redirects to another one, or cannot do it yet, it has
   * done nothing: it is done again there, or later.
   *
   * @throws NotSent when no node can be asked; else what the call throws
   */
  at<T>(key: string, call: NodeCall<T>): Promise<T>;
  /** The nodes that have keys, as far as they are known. */
  masters(): readonly StoreNode[];
  /** A key like `base` that a node has. */
  keyOf(node: StoreNode, base: string): string;
  /** Whether every node is known and connected. */
  isReady(): boolean;
  close(): void;
}

/** The share of the timeout for which one WAIT may hold up the changes behind it. */
const WAIT_SHARE = 0.8;

/** A node of Redis that makes changes, and the connections to it. */
export class StoreNode {
  /** Where it is, for the log. */
  readonly name: string;
  /** The connection for everything but changes that wait for replicas. */
  readonly reads: StoreConnection;
  /**
   * The connection for changes. It is one of its own when changes wait for replicas, because WAIT delays every later
   * command of its connection.
   */
  readonly changes: StoreConnection;
  /** The connections above, each once. */
  readonly connections: readonly StoreConnection[];
  /** Undefined: replicas are not waited for. */
  readonly replicas: Replicas | undefined;

  constructor(name: string, reads: StoreConnection, replicas?: Replicas) {
    this.name = name;
    this.reads = reads;
    this.changes = replicas?.connection ?? reads;
    this.connections = replicas ? [reads, replicas.connection] : [reads];
    this.replicas = replicas;
  }

  /** Whether commands would be sent now. */
  isReady(): boolean {
    return this.connections.every(({ clock }) => clock !== undefined);
  }

  close(): void {
    for (const connection of this.connections) connection.close();
  }
}

/** Connects to a node. */
export function openNode(name: string, destination: RedisDestination, options: NodeOptions): StoreNode {
  const { timeoutMs, minReplicas = 0 } = options;
  const reads = connect(destination, options);
  // No change is sent over the connection for reads, so it does not notice by itself that its node was demoted.
  const changes = () => connect(destination, { ...options, onDemoted: () => reads.replace() });
  const replicas = minReplicas > 0 ? new Replicas(changes(), minReplicas, timeoutMs * WAIT_SHARE) : undefined;
  return new StoreNode(name, reads, replicas);
}

/** Redis with one master: a single node, or one behind Sentinels. @param onClose called when it is closed */
export function singleNode(node: StoreNode, onClose = () => {}): StoreNodes {
  const masters = [node];
  return {
    at: (_key, call) => call.sendTo(node, false),
    masters: () => masters,
    keyOf: (_node, base) => base,
    isReady: () => node.isReady(),
    close() {
      node.close();
      onClose();
    },
  };
}

/**
 * Waits for the replicas of one connection. While a WAIT is under way, Redis looks at no further command of that
 * connection, so there is one at a time. It serves all changes that Redis answered before it was sent; those that are
 * answered later share the next one.
 */
class Replicas {
  readonly connection: StoreConnection;
  readonly #count: number;
  readonly #longestMs: number;
  #currentWait: Promise<unknown> = Promise.resolve();
  #nextWait: Promise<number> | undefined;
  /** How long the callers that share the next WAIT can wait, at the most, in milliseconds. */
  #nextLeftMs = 0;

  /** @param longestMs how long one WAIT may hold up the changes behind it, in milliseconds */
  constructor(connection: StoreConnection, count: number, longestMs: number) {
    this.connection = connection;
    this.#count = count;
    this.#longestMs = longestMs;
  }

  /**
   * Resolves when enough replicas have all changes that Redis answered before this call.
   *
   * @param leftMs how long the caller can wait, in milliseconds
   * @throws NotConfirmed when they have not by then, or it cannot be known
   */
  async confirm(leftMs: number): Promise<void> {
    const { losses } = this.connection;
    this.#nextLeftMs = Math.max(this.#nextLeftMs, leftMs);
    this.#nextWait ??= this.#wait();
    let confirmed: number;
    try {
      confirmed = await this.#nextWait;
    } catch (cause) {
      throw new NotConfirmed(cause);
    }
    if (confirmed < this.#count) throw new NotConfirmed(new Error(`${confirmed} of ${this.#count} confirmed`));
    // A new connection may lead to another Redis: what its replicas confirm says nothing of this change.
    if (losses !== this.connection.losses) throw new NotConfirmed(new Error("connection lost"));
  }

  async #wait(): Promise<number> {
    await this.#currentWait;
    await nextTurn();
    // WAIT takes 0 for no limit.
    const ms = Math.max(Math.ceil(Math.min(this.#nextLeftMs, this.#longestMs)), 1);
    this.#nextLeftMs = 0;
    this.#nextWait = undefined;
    const confirmed = this.connection.redis.wait(this.#count, ms);
    this.#currentWait = confirmed.catch(() => {});
    return confirmed;
  }
}
