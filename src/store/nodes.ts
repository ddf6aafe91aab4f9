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
  /** The connection for changes: one of its own when they wait for replicas, for then it keeps waiting what comes behind them. */
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
   * Does something at the node that has a key. When that node says that it is for another one, or not now, and so has
   * done nothing, it is done again there, or then.
   *
   * @param call when it is ended, nobody waits for it any more
   * @throws NotSent when no node can be asked; else what the work throws
   */
  at<T>(key: string, work: NodeWork<T>, call: { readonly isEnded: boolean }): Promise<T>;
  /** The nodes that have keys, as far as they are known. */
  masters(): readonly StoreNode[];
  /** A key like `base` that a node has. */
  keyOf(node: StoreNode, base: string): string;
  /** Whether every node is known and there. */
  isReady(): boolean;
  close(): void;
}

/** What was to be sent to Redis was not. */
export class NotSent extends Error {
  override readonly name = "NotSent";
}

/** Whether a node's connections are there. */
export function isNodeReady({ reads, changes }: StoreNode): boolean {
  return reads.isReady() && changes.isReady();
}

/** Redis that is one node, at any time. */
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
