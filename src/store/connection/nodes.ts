import { setImmediate as nextTurn } from "node:timers/promises";
import { connect, type NodeOptions, type StoreConnection } from "./connection.ts";
import { NotConfirmed } from "./errors.ts";
import type { RedisDestination } from "./options.ts";

/** A call to a node. */
export interface NodeCall<T> {
  /** Whether there is time to send the call again. */
  readonly hasTime: boolean;
  /** @param asking whether the slot of the key is migrating to the node (`send`) */
  sendTo(node: StoreNode, asking: boolean): Promise<T>;
}

/** The nodes of one Redis, a master behind Sentinels, or a Cluster. */
export interface StoreNodes {
  /**
   * Sends a call to the node that has a key. If that node redirects the call, or cannot run the call yet, the call has
   * not run. The call is then sent again, to the other node or later.
   *
   * @throws NotSent if no node can be reached; otherwise the error of the call
   */
  at<T>(key: string, call: NodeCall<T>): Promise<T>;
  /** The known nodes that have slots. */
  masters(): readonly StoreNode[];
  /** Returns a key that begins with `base` and belongs to a node. */
  keyOf(node: StoreNode, base: string): string;
  /** Whether every node is known and connected. */
  isReady(): boolean;
  close(): void;
}

/** The share of the timeout for which one WAIT may delay the changes behind it. */
const WAIT_SHARE = 0.8;

/** A master, and the connections to it. */
export class StoreNode {
  /** Its address, or the name of the master, for the log. */
  readonly name: string;
  /** The connection for reads, and for changes if they do not wait for replicas. */
  readonly reads: StoreConnection;
  /**
   * The connection for changes. If changes wait for replicas, they have a separate connection, because WAIT delays every later
   * command of its connection.
   */
  readonly changes: StoreConnection;
  /** These connections, without duplicates. */
  readonly connections: readonly StoreConnection[];
  /** Undefined if changes do not wait for replicas. */
  readonly replicas: Replicas | undefined;

  constructor(name: string, reads: StoreConnection, replicas?: Replicas) {
    this.name = name;
    this.reads = reads;
    this.changes = replicas?.connection ?? reads;
    this.connections = replicas ? [reads, replicas.connection] : [reads];
    this.replicas = replicas;
  }

  /** Whether all connections are ready. */
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
  // The connection for reads sends no changes, so it never receives the READONLY of a demoted node.
  const changes = () => connect(destination, { ...options, onDemoted: () => reads.replace() });
  const replicas = minReplicas > 0 ? new Replicas(changes(), minReplicas, timeoutMs * WAIT_SHARE) : undefined;
  return new StoreNode(name, reads, replicas);
}

/** A Redis with one master: a single node, or a node behind Sentinels. @param onClose called when it is closed */
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
 * Waits for the replicas of one connection. While a WAIT is in flight, Redis runs no other command of that connection, so only one
 * WAIT is in flight at a time. A WAIT covers all changes that Redis answered before this process sent the WAIT. Later changes share
 * the next WAIT.
 */
class Replicas {
  readonly connection: StoreConnection;
  readonly #count: number;
  readonly #longestMs: number;
  #currentWait: Promise<unknown> = Promise.resolve();
  #nextWait: Promise<number> | undefined;
  /** The longest remaining time of the callers that share the next WAIT, in milliseconds. */
  #nextLeftMs = 0;

  /** @param longestMs the longest time for which one WAIT may delay the changes behind it, in milliseconds */
  constructor(connection: StoreConnection, count: number, longestMs: number) {
    this.connection = connection;
    this.#count = count;
    this.#longestMs = longestMs;
  }

  /**
   * Resolves when enough replicas have all changes that Redis answered before this call.
   *
   * @param leftMs the remaining time of the caller, in milliseconds
   * @throws NotConfirmed if they do not confirm in this time, or the connection is lost
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
    // A new connection may lead to another Redis, whose replicas do not confirm this change.
    if (losses !== this.connection.losses) throw new NotConfirmed(new Error("connection lost"));
  }

  async #wait(): Promise<number> {
    await this.#currentWait;
    await nextTurn();
    // For WAIT, 0 means no limit.
    const ms = Math.max(Math.ceil(Math.min(this.#nextLeftMs, this.#longestMs)), 1);
    this.#nextLeftMs = 0;
    this.#nextWait = undefined;
    const confirmed = this.connection.redis.wait(this.#count, ms);
    this.#currentWait = confirmed.catch(() => {});
    return confirmed;
  }
}
