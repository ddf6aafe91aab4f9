import { setImmediate as nextTurn } from "node:timers/promises";
import { TooFewReplicas } from "../../domain/errors.ts";
import { connect, type NodeOptions, type StoreConnection } from "./connection.ts";
import type { RedisDestination } from "./options.ts";

export interface NodeCall<T> {
  readonly hasTime: boolean;
  /** @param asking whether the slot of the key is migrating to the node (see `send`) */
  sendTo(node: StoreNode, asking: boolean): Promise<T>;
}

/** The nodes of one Redis: a single node, a master behind Sentinels, or a Cluster. */
export interface StoreNodes {
  /**
   * Sends a call to the node that has a key. If the node redirects the call, the node has not run the call, so the call
   * is sent to the other node. If the node cannot run the call yet, the call is sent again after a pause.
   *
   * @throws NotSent if no node can be reached; otherwise the error of the call
   */
  at<T>(key: string, call: NodeCall<T>): Promise<T>;
  masters(): readonly StoreNode[];
  /** Returns a key that begins with `base` and whose slot is on the node. */
  keyOf(node: StoreNode, base: string): string;
  isReady(): boolean;
  close(): void;
}

/**
 * The maximum duration of one WAIT, as a fraction of the timeout. A WAIT delays all later changes on its connection.
 */
const WAIT_SHARE = 0.8;

export class StoreNode {
  /** The name of the node for the log. This is its address, or the name of the master in the Sentinel configuration. */
  readonly name: string;
  readonly reads: StoreConnection;
  /**
   * If `minReplicas` is 0, this is the connection `reads`. Otherwise, this is a separate connection, because WAIT
   * delays all later commands on its connection.
   */
  readonly changes: StoreConnection;
  readonly connections: readonly StoreConnection[];
  readonly replicas: Replicas | undefined;

  constructor(name: string, reads: StoreConnection, replicas?: Replicas) {
    this.name = name;
    this.reads = reads;
    this.changes = replicas?.connection ?? reads;
    this.connections = replicas ? [reads, replicas.connection] : [reads];
    this.replicas = replicas;
  }

  isReady(): boolean {
    return this.connections.every(({ clock }) => clock !== undefined);
  }

  close(): void {
    for (const connection of this.connections) connection.close();
  }
}

export function openNode(name: string, destination: RedisDestination, options: NodeOptions): StoreNode {
  const { timeoutMs, minReplicas = 0 } = options;
  const reads = connect(destination, options);
  // The connection for reads sends no changes, and therefore never receives READONLY. If the connection for changes is
  // replaced after READONLY, replace the connection for reads as well.
  const changes = () => connect(destination, { ...options, onDemoted: () => reads.replace() });
  const replicas = minReplicas > 0 ? new Replicas(changes(), minReplicas, timeoutMs * WAIT_SHARE) : undefined;
  return new StoreNode(name, reads, replicas);
}

/** Creates the `StoreNodes` of a Redis that has only one master. @param onClose called by `close` */
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
 * Waits until replicas have the changes of one connection. At most one WAIT is in flight. A WAIT covers all changes
 * that Redis answered before this process sent the WAIT. All changes that Redis answers during a WAIT share the next
 * WAIT.
 */
class Replicas {
  readonly connection: StoreConnection;
  readonly #count: number;
  readonly #longestMs: number;
  #currentWait: Promise<unknown> = Promise.resolve();
  #nextWait: Promise<number> | undefined;
  /** The longest remaining time of the callers that share the next WAIT, in milliseconds. */
  #nextLeftMs = 0;

  constructor(connection: StoreConnection, count: number, longestMs: number) {
    this.connection = connection;
    this.#count = count;
    this.#longestMs = longestMs;
  }

  /**
   * Waits until enough replicas have all changes that Redis answered before this call.
   *
   * @param leftMs the remaining time of the caller, in milliseconds
   * @throws TooFewReplicas if too few replicas confirm in this time, or if the connection is lost
   */
  async confirm(leftMs: number): Promise<void> {
    const { clock } = this.connection;
    this.#nextLeftMs = Math.max(this.#nextLeftMs, leftMs);
    this.#nextWait ??= this.#wait();
    const confirmed = await this.#nextWait.catch((cause: unknown) => {
      throw new TooFewReplicas(cause);
    });
    if (confirmed < this.#count)
      throw new TooFewReplicas(new Error(`${confirmed} of ${this.#count} replicas confirmed`));
    // After a loss, the connection may lead to another Redis. A confirmation by the replicas of the other Redis does
    // not cover the change.
    if (clock !== this.connection.clock) throw new TooFewReplicas(new Error("connection lost"));
  }

  async #wait(): Promise<number> {
    await this.#currentWait;
    await nextTurn();
    // For WAIT, 0 means no time limit.
    const ms = Math.max(Math.ceil(Math.min(this.#nextLeftMs, this.#longestMs)), 1);
    this.#nextLeftMs = 0;
    this.#nextWait = undefined;
    const confirmed = this.connection.redis.wait(this.#count, ms);
    this.#currentWait = confirmed.catch(() => {});
    return confirmed;
  }
}
