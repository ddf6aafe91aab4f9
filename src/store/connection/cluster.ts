import { setTimeout as pause } from "node:timers/promises";
import crc16xmodem from "crc/crc16xmodem";
import { MAX_CALLS } from "../../domain/capacity.ts";
import type { NodeOptions } from "./connection.ts";
import { NotSent, type Redirection, redirectionOf, showsOutdatedSlots } from "./errors.ts";
import { type NodeCall, openNode, type StoreNode, type StoreNodes } from "./nodes.ts";
import { type HostPort, nameOf, type RedisTarget } from "./url.ts";

export const SLOTS = 16_384;

/** Returns the slot of a key (https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/). */
export function slotOf(key: string): number {
  const open = key.indexOf("{");
  const close = open < 0 ? -1 : key.indexOf("}", open + 1);
  return crc16xmodem(close > open + 1 ? key.slice(open + 1, close) : key) % SLOTS;
}

/** The number of redirections that a call follows immediately. The call pauses before it follows more redirections. */
const QUICK_HOPS = 5;

/** The pause before each redirection after `QUICK_HOPS`, and before a retry in a migrating slot, in milliseconds. */
const PAUSE_MS = 25;

/** The maximum time for which a redirected call waits until its new node is connected, in milliseconds. */
const CONNECT_TIMEOUT_MS = 500;

const CONNECT_CHECK_MS = 5;

/**
 * The maximum number of commands that wait for answers on one connection to a node. Without this limit, calls to a slow
 * node could use the whole limit `MAX_CALLS`, and the service would refuse calls to other nodes.
 */
const MAX_WAITING = MAX_CALLS / 8;

const SLOTS_TIMEOUT_MS = 300;

/** The pause before a CLUSTER SLOTS query, in milliseconds. Calls that fail during this pause share the query. */
const REFRESH_DELAY_MS = 20;

const REFRESH_INTERVAL_MS = 500;

const QUERIED_NODES = 3;

interface Range {
  readonly first: number;
  readonly last: number;
  readonly master: HostPort;
}

/**
 * The nodes of a Redis Cluster (docs/decisions/0006-topologies-of-redis.md). Each node has separate connections, so a
 * slow or silent node does not delay calls to other nodes. A node that redirects a command has not run the command, so
 * the command is sent again. If the connection is lost, the command is not sent again, because it may have run.
 */
export class ClusterNodes implements StoreNodes {
  readonly #target: RedisTarget;
  readonly #options: Omit<NodeOptions, "onClose">;
  readonly #nodes = new Map<string, StoreNode>();
  #slots: (StoreNode | undefined)[] = [];
  #masters: readonly StoreNode[] = [];
  #isCovered = false;
  #isRefreshing = false;
  #isRefreshRequested = false;
  #lastQuery = Number.NEGATIVE_INFINITY;
  #queries = 0;
  #isClosed = false;

  constructor(target: RedisTarget, options: Omit<NodeOptions, "onClose">) {
    this.#target = target;
    this.#options = options;
    this.#openSeeds();
  }

  at<T>(key: string, call: NodeCall<T>): Promise<T> {
    const slot = slotOf(key);
    const node = this.#slots[slot];
    return this.#attempt(node, call, false).catch((error: unknown) => this.#sendOn(error, { slot, node }, call));
  }

  masters(): readonly StoreNode[] {
    return this.#masters;
  }

  keyOf(node: StoreNode, base: string): string {
    for (let i = 0; i < SLOTS; i++) {
      const key = `${base}:{${i}}`;
      if (this.#slots[slotOf(key)] === node) return key;
    }
    return base;
  }

  isReady(): boolean {
    return this.#isCovered && this.#masters.every((node) => node.isReady());
  }

  close(): void {
    this.#isClosed = true;
    for (const node of this.#nodes.values()) node.close();
  }

  #attempt<T>(node: StoreNode | undefined, call: NodeCall<T>, asking: boolean): Promise<T> {
    if (!node?.isReady()) {
      this.#refreshSoon();
      return Promise.reject(
        new NotSent(node ? `not connected to ${node.name}` : "no node of the Cluster has this slot"),
      );
    }
    for (const { redis } of node.connections) {
      const { length } = redis.commandQueue;
      if (length >= MAX_WAITING)
        return Promise.reject(new NotSent(`${node.name} is slow: ${length} commands are waiting for it`));
    }
    return call.sendTo(node, asking);
  }

  async #sendOn<T>(first: unknown, from: { slot: number; node: StoreNode | undefined }, call: NodeCall<T>): Promise<T> {
    let error = first;
    let { node } = from;
    for (let hops = 1; ; hops++) {
      if (showsOutdatedSlots(error)) this.#refreshSoon();
      const redirection = redirectionOf(error);
      if (redirection === undefined) throw error;
      if (redirection.kind === "wait" || hops > QUICK_HOPS) await pause(PAUSE_MS);
      if (redirection.kind === "wait") node = this.#slots[from.slot];
      else node = await this.#follow(redirection, node);
      if (!call.hasTime) throw error;
      try {
        return await this.#attempt(node, call, redirection.kind === "ask");
      } catch (caught) {
        error = caught;
      }
    }
  }

  /** Returns the node to which a call is redirected. Waits up to `CONNECT_TIMEOUT_MS` until the node is ready. */
  async #follow({ kind, slot, to }: Exclude<Redirection, { kind: "wait" }>, from: StoreNode | undefined) {
    // If the redirection contains no host, the new node has the host of the node that redirected the call.
    const host = to.host || (from?.reads.redis.options.host ?? "");
    const node = this.#open({ host, port: to.port });
    if (kind === "moved") this.#slots[slot] = node;
    const until = performance.now() + CONNECT_TIMEOUT_MS;
    while (!node.isReady() && performance.now() < until) await pause(CONNECT_CHECK_MS);
    return node;
  }

  #open(address: HostPort): StoreNode {
    const name = nameOf(address);
    const known = this.#nodes.get(name);
    if (known) return known;
    const node = openNode(
      name,
      { ...this.#target, to: address },
      {
        ...this.#options,
        onReady: () => {
          this.#refreshSoon();
          // A node in REDIS_URL may have no slots. Such a node is not in `#masters`, and `#adopt` closes it.
          if (this.#masters.includes(node)) this.#options.onReady();
        },
        onClose: () => this.#refreshSoon(),
      },
    );
    this.#nodes.set(name, node);
    return node;
  }

  #refreshSoon(): void {
    this.#isRefreshRequested = true;
    if (!this.#isRefreshing) void this.#refresh();
  }

  #openSeeds(): void {
    for (const seed of this.#target.hosts) this.#open(seed);
  }

  async #refresh(): Promise<void> {
    this.#isRefreshing = true;
    while (this.#isRefreshRequested || !this.isReady()) {
      const due = this.#lastQuery + REFRESH_INTERVAL_MS - performance.now();
      await pause(Math.max(due, REFRESH_DELAY_MS), undefined, { ref: false });
      if (this.#isClosed) return;
      this.#isRefreshRequested = false;
      this.#lastQuery = performance.now();
      const ranges = await this.#readSlots();
      if (this.#isClosed) return;
      if (ranges) this.#adopt(ranges);
      else this.#openSeeds();
    }
    this.#isRefreshing = false;
  }

  /**
   * Reads the slots from up to `QUERIED_NODES` connected nodes. Each call continues with the next nodes. Returns the
   * most frequent answer, because a single node may have lost contact with the other nodes.
   */
  async #readSlots(): Promise<readonly Range[] | undefined> {
    const connected = [...this.#nodes.values()].filter(({ reads }) => reads.clock !== undefined);
    const count = Math.min(QUERIED_NODES, connected.length);
    const nodes = Array.from({ length: count }, () => connected[this.#queries++ % connected.length] as StoreNode);
    const answers = await Promise.all(nodes.map((node) => readSlots(node).catch(() => undefined)));
    const texts = answers.flatMap((ranges) => (ranges ? [JSON.stringify(ranges)] : []));
    const votesFor = (text: string) => texts.filter((other) => other === text).length;
    const [text] = texts.toSorted((a, b) => votesFor(b) - votesFor(a));
    return text === undefined ? undefined : (JSON.parse(text) as Range[]);
  }

  #adopt(ranges: readonly Range[]): void {
    const before = this.#masters;
    const slots: (StoreNode | undefined)[] = new Array(SLOTS).fill(undefined);
    for (const { first, last, master } of ranges) slots.fill(this.#open(master), first, last + 1);
    const masters = new Set(slots);
    this.#isCovered = !masters.delete(undefined);
    this.#slots = slots;
    this.#masters = [...masters] as StoreNode[];
    if (masters.size === 0) return;
    for (const [name, node] of this.#nodes) {
      if (!masters.has(node)) {
        // The node has no slots. Close it later, because it may still answer commands in flight.
        this.#nodes.delete(name);
        setTimeout(() => node.close(), this.#options.timeoutMs).unref();
      } else if (!before.includes(node) && node.isReady()) this.#options.onReady();
    }
  }
}

async function readSlots({ reads: { redis } }: StoreNode): Promise<readonly Range[] | undefined> {
  const answer = await Promise.race([redis.cluster("SLOTS"), pause(SLOTS_TIMEOUT_MS, undefined, { ref: false })]);
  return answer && rangesOf(answer, redis.options.host ?? "");
}

/** Parses the answer of CLUSTER SLOTS. The first node of each range is the master. */
function rangesOf(answer: unknown, queriedHost: string): readonly Range[] {
  const rows = answer as [number, number, [string | null, number], ...unknown[]][];
  return rows
    .map(([first, last, [host, port]]) => ({ first, last, master: { host: host || queriedHost, port } }))
    .sort((a, b) => a.first - b.first);
}
