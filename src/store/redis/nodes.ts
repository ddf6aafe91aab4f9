import { setImmediate as nextTurn } from "node:timers/promises";
import { TooFewReplicas } from "../../domain/errors.ts";
import { type ConnectionOptions, connect, type StoreConnection } from "./connection.ts";
import type { RedisPlace } from "./options.ts";

/** Something that is done at a node. */
export interface NodeCall<T> {
  /** Once it is ended, nothing is done again. */
  readonly isEnded: boolean;
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

/** How the connections to a node behave, and who is told of them. */
export interface NodeOptions extends Omit<ConnectionOptions, "silenceMs" | "minReplicas"> {
  /** How long a call may take, in milliseconds. */
  readonly timeoutMs: number;
  /** How many replicas must confirm a change; 0 for none. */
  readonly minReplicas?: number;
}

/** The share of the timeout for which one WAIT may hold up the changes behind it. */
const WAIT_SHARE = 0.8;

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
  /** Each of them once. */
  readonly connections: readonly StoreConnection[];
  /** Undefined: replicas are not waited for. */
  readonly replicas: Replicas | undefined;
  /** Whether commands would be sent now. */
  isReady(): boolean;
  close(): void;
}

/** Connects to a node. */
export function openNode(name: string, place: RedisPlace, options: NodeOptions): StoreNode {
  const { timeoutMs, minReplicas = 0 } = options;
  const open = () => connect(place, { ...options, minReplicas, silenceMs: Math.max(timeoutMs, 100) });
  const reads = open();
  if (minReplicas === 0) return nodeOf(name, reads);
  const changes = open();
  return nodeOf(name, reads, { changes, replicas: new Replicas(changes, minReplicas, timeoutMs * WAIT_SHARE) });
}

/** A node with one connection, or with one more for changes that wait for replicas. */
export function nodeOf(
  name: string,
  reads: StoreConnection,
  { changes = reads, replicas }: Partial<Pick<StoreNode, "changes" | "replicas">> = {},
): StoreNode {
  const connections = changes === reads ? [reads] : [reads, changes];
  return {
    ...{ name, reads, changes, connections, replicas },
    isReady: () => connections.every(({ clock }) => clock !== undefined),
    close() {
      for (const connection of connections) connection.close();
    },
  };
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
 * Waits for the replicas of one connection. Redis looks at no further command of a connection while a WAIT is under
 * way, so there is one at a time: it serves all changes that were answered in the turns before it, and those that are
 * answered meanwhile share the next.
 */
class Replicas {
  readonly #connection: StoreConnection;
  readonly #count: number;
  readonly #longestMs: number;
  #underWay: Promise<unknown> = Promise.resolve();
  #next: Promise<number> | undefined;
  /** How long those who share the next can wait, at the most. */
  #leftMs = 0;

  /** @param longestMs how long one WAIT may hold up the changes behind it, in milliseconds */
  constructor(connection: StoreConnection, count: number, longestMs: number) {
    this.#connection = connection;
    this.#count = count;
    this.#longestMs = longestMs;
  }

  /**
   * Resolves when enough replicas have all changes that Redis answered before this call.
   *
   * @param leftMs how long the caller can wait, in milliseconds
   * @throws TooFewReplicas when they have not by then, or it cannot be known
   */
  async confirm(leftMs: number): Promise<void> {
    const { losses } = this.#connection;
    this.#leftMs = Math.max(this.#leftMs, leftMs);
    this.#next ??= this.#wait();
    let confirmed: number;
    try {
      confirmed = await this.#next;
    } catch (cause) {
      throw new TooFewReplicas(cause);
    }
    if (confirmed < this.#count) throw new TooFewReplicas(new Error(`${confirmed} of ${this.#count} confirmed`));
    // A new connection may lead to another Redis, whose replicas tell nothing of this change.
    if (losses !== this.#connection.losses) throw new TooFewReplicas(new Error("connection lost"));
  }

  async #wait(): Promise<number> {
    await this.#underWay;
    await nextTurn();
    // WAIT takes 0 for no limit.
    const ms = Math.max(Math.ceil(Math.min(this.#leftMs, this.#longestMs)), 1);
    this.#leftMs = 0;
    this.#next = undefined;
    const confirmed = this.#connection.redis.wait(this.#count, ms);
    this.#underWay = confirmed.catch(() => {});
    return confirmed;
  }
}
