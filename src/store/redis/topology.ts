import { setTimeout as pause } from "node:timers/promises";
import { crc16xmodem } from "crc";
import { type NodeOptions, openNode, type StoreNode } from "./nodes.ts";
import { type HostPort, nameOf, type RedisTarget } from "./url.ts";

/** How the nodes of a Cluster are connected to. */
export type TopologyOptions = Omit<NodeOptions, "onClose">;

/** The number of slots of a Redis Cluster. */
export const SLOTS = 16_384;

/** The slot that a key belongs to (https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/). */
export function slotOf(key: string): number {
  const open = key.indexOf("{");
  const close = open < 0 ? -1 : key.indexOf("}", open + 1);
  return crc16xmodem(close > open + 1 ? key.slice(open + 1, close) : key) % SLOTS;
}

/** How long a node may take to say who has which slots, in milliseconds. */
const ANSWER_MS = 300;

/** The pause before asking again while a slot has no connected node, in milliseconds. */
const RETRY_MS = 100;

/** The shortest pause before asking again, in milliseconds, however many calls are redirected. */
const SHORTEST_MS = 20;

/** After this many questions without an answer, the nodes of REDIS_URL are connected to again. */
const UNANSWERED = 3;

/** A range of slots and the node that has them. */
interface Range {
  readonly first: number;
  readonly last: number;
  readonly master: HostPort;
}

/** Which node of a Cluster has which slots, and the connections to the nodes. */
export class Topology {
  readonly #target: RedisTarget;
  readonly #options: TopologyOptions;
  readonly #nodes = new Map<string, StoreNode>();
  #slots: (StoreNode | undefined)[] = [];
  #masters: readonly StoreNode[] = [];
  #isCovered = false;
  #unanswered = 0;
  #isAsking = false;
  #isAskedFor = false;
  #retry: ReturnType<typeof setTimeout> | undefined;
  #isClosed = false;

  constructor(target: RedisTarget, options: TopologyOptions) {
    this.#target = target;
    this.#options = options;
    this.#openSeeds();
  }

  nodeOf(slot: number): StoreNode | undefined {
    return this.#slots[slot];
  }

  masters(): readonly StoreNode[] {
    return this.#masters;
  }

  /** Whether every slot has a node, and every node is connected. */
  isWhole(): boolean {
    return this.#isCovered && this.#masters.every((node) => node.isReady());
  }

  /** The node at an address. It is connected to unless it is already. */
  open(address: HostPort): StoreNode {
    const name = nameOf(address);
    const known = this.#nodes.get(name);
    if (known) return known;
    const node = openNode(
      name,
      { ...this.#target, to: address },
      {
        ...this.#options,
        onReady: () => {
          this.refreshSoon();
          // A node of the URL may have no slots, and be given up again.
          if (this.#masters.includes(node)) this.#options.onReady();
        },
        onClose: () => this.refreshSoon(),
      },
    );
    this.#nodes.set(name, node);
    return node;
  }

  /** Notes that a slot is another node's, and asks who has the others. */
  moved(slot: number, node: StoreNode): void {
    this.#slots[slot] = node;
    this.refreshSoon();
  }

  /** Asks who has which slots, soon or after the question that is under way is answered. */
  refreshSoon(): void {
    this.#isAskedFor = true;
    if (!this.#isAsking) void this.#refresh();
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#retry);
    for (const node of this.#nodes.values()) node.close();
  }

  #openSeeds(): void {
    for (const seed of this.#target.hosts) this.open(seed);
  }

  async #refresh(): Promise<void> {
    this.#isAsking = true;
    for (let pauseMs = SHORTEST_MS; this.#isAskedFor; pauseMs = RETRY_MS) {
      await pause(pauseMs, undefined, { ref: false });
      this.#isAskedFor = false;
      const ranges = await this.#ask();
      if (this.#isClosed) return;
      if (ranges) this.#adopt(ranges);
      else if (++this.#unanswered % UNANSWERED === 0) this.#openSeeds();
    }
    this.#isAsking = false;
    clearTimeout(this.#retry);
    if (!this.isWhole()) this.#retry = setTimeout(() => this.refreshSoon(), RETRY_MS).unref();
  }

  /**
   * Asks all connected nodes, and takes the answer that most of them give: a single node may be cut off from the
   * others.
   */
  async #ask(): Promise<readonly Range[] | undefined> {
    const nodes = [...this.#nodes.values()].filter(({ reads }) => reads.clock !== undefined);
    const answers = await Promise.all(nodes.map((node) => askOne(node).catch(() => undefined)));
    const votes = new Map<string, { ranges: readonly Range[]; count: number }>();
    for (const ranges of answers) {
      if (!ranges) continue;
      const text = JSON.stringify(ranges);
      const vote = votes.get(text) ?? { ranges, count: 0 };
      votes.set(text, { ranges, count: vote.count + 1 });
    }
    return [...votes.values()].sort((a, b) => b.count - a.count)[0]?.ranges;
  }

  #adopt(ranges: readonly Range[]): void {
    this.#unanswered = 0;
    const before = this.#masters;
    const slots: (StoreNode | undefined)[] = new Array(SLOTS).fill(undefined);
    for (const { first, last, master } of ranges) slots.fill(this.open(master), first, last + 1);
    const masters = new Set(slots);
    this.#isCovered = !masters.delete(undefined);
    this.#slots = slots;
    this.#masters = [...masters] as StoreNode[];
    if (masters.size === 0) return;
    for (const [name, node] of this.#nodes) {
      if (!masters.has(node)) {
        // The node has no slots any more, or never had any. It may still answer what it was asked.
        this.#nodes.delete(name);
        setTimeout(() => node.close(), this.#options.timeoutMs).unref();
      } else if (!before.includes(node) && node.isReady()) this.#options.onReady();
    }
  }
}

/** Asks a node who has which slots; undefined when it does not answer in time. */
async function askOne({ reads: { redis } }: StoreNode): Promise<readonly Range[] | undefined> {
  const answer = await Promise.race([redis.cluster("SLOTS"), pause(ANSWER_MS, undefined, { ref: false })]);
  return answer && rangesOf(answer, redis.options.host ?? "");
}

/** What CLUSTER SLOTS answers: for each range its first and last slot, then the nodes, the master first. */
function rangesOf(answer: unknown, askedHost: string): readonly Range[] {
  const rows = answer as [number, number, [string | null, number], ...unknown[]][];
  return rows
    .map(([first, last, [host, port]]) => ({ first, last, master: { host: host || askedHost, port } }))
    .sort((a, b) => a.first - b.first);
}
