import type { StoreConnection } from "./connection.ts";
import type { Replicas } from "./replicas.ts";
import type { SCRIPTS } from "./scripts.ts";

/** The commands of Redis that are used beside the scripts. Each touches one key, its first argument. */
export interface PlainCommands {
  get(key: string): Promise<string | null>;
  hgetall(key: string): Promise<Record<string, string>>;
  zrangebylex(key: string, min: string, max: string, limit: "LIMIT", offset: number, count: number): Promise<string[]>;
  xrevrange(key: string, end: string, start: string, count: "COUNT", limit: number): Promise<[string, string[]][]>;
  del(key: string): Promise<number>;
}

/** The names of `PlainCommands`. */
export const PLAIN_COMMANDS = [
  "get",
  "hgetall",
  "zrangebylex",
  "xrevrange",
  "del",
] as const satisfies readonly (keyof PlainCommands)[];

/** What is asked of Redis. All keys that a command touches share the slot of its first argument. */
export type StoreCommands = {
  readonly [name in keyof typeof SCRIPTS]: (key: string, ...args: string[]) => Promise<string[]>;
} & PlainCommands;

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
 * @param asking whether the node is to be asked for a key that is on its way to it (`StoreConnection.asking`)
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

/** A command was not sent to Redis. */
export class NotSent extends Error {
  override readonly name = "NotSent";
}

/** Whether a node's connections are ready. */
export function isNodeReady({ reads, changes }: StoreNode): boolean {
  return reads.isReady() && changes.isReady();
}

/** Redis with one master: a single node, or one behind Sentinels. */
export class SingleNode implements StoreNodes {
  readonly #node: StoreNode;
  readonly #onClose: () => void;

  /** @param onClose called when it is closed */
  constructor(node: StoreNode, onClose = () => {}) {
    this.#node = node;
    this.#onClose = onClose;
  }

  at<T>(_key: string, work: NodeWork<T>): Promise<T> {
    return work(this.#node, false);
  }

  masters(): readonly StoreNode[] {
    return [this.#node];
  }

  keyOf(_node: StoreNode, base: string): string {
    return base;
  }

  isReady(): boolean {
    return isNodeReady(this.#node);
  }

  close(): void {
    closeNode(this.#node);
    this.#onClose();
  }
}

/** Closes the connections of a node. */
export function closeNode({ reads, changes }: StoreNode): void {
  reads.close();
  if (changes !== reads) changes.close();
}
