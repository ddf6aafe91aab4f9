import { crc16xmodem } from "crc";
import { within } from "../../within.ts";
import { StoreMisconfigured } from "./answers.ts";
import { closeNode, isNodeReady, type NodeOptions, openNode, type StoreNode } from "./nodes.ts";
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

type Opened = ReturnType<typeof openNode>;

/** Which node of a Cluster has which slots, and the connections to the nodes. */
export class Topology {
  /** Resolves when every slot has a node and every node is connected; rejects with StoreMisconfigured. */
  readonly opened: Promise<void>;
  /** Resolves when any node that has slots is connected. */
  readonly some: Promise<void>;
  readonly #target: RedisTarget;
  readonly #options: TopologyOptions;
  readonly #nodes = new Map<string, Opened>();
  readonly #slots: (StoreNode | undefined)[] = new Array(SLOTS).fill(undefined);
  #masters: readonly StoreNode[] = [];
  #isCovered = false;
  #unanswered = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** `performance.now()` at which the timer runs. */
  #due = 0;
  #isAsking = false;
  #isAskedAgain = false;
  #isClosed = false;
  /** Nodes that have lost their slots, and may still answer what they were asked. */
  readonly #leaving = new Set<StoreNode>();
  #resolve = () => {};
  #resolveSome = () => {};
  #reject: (error: Error) => void = () => {};

  constructor(target: RedisTarget, options: TopologyOptions) {
    this.#target = target;
    this.#options = options;
    this.opened = new Promise<void>((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    this.some = new Promise<void>((resolve) => {
      this.#resolveSome = resolve;
    });
    for (const seed of target.hosts) this.open(seed);
  }

  nodeOf(slot: number): StoreNode | undefined {
    return this.#slots[slot];
  }

  masters(): readonly StoreNode[] {
    return this.#masters;
  }

  /** Whether every slot has a node, and every node is connected. */
  isWhole(): boolean {
    return this.#isCovered && this.#masters.every(isNodeReady);
  }

  /** The node at an address. It is connected to unless it is already. */
  open(address: HostPort): Opened {
    const name = nameOf(address);
    let opened = this.#nodes.get(name);
    if (!opened) {
      opened = openNode(
        name,
        { ...this.#target, to: address },
        {
          ...this.#options,
          onReady: () => {
            this.refreshSoon();
            // A node of the URL may have no slots, and be given up again.
            if (this.#isMaster(name)) this.#options.onReady();
          },
          onClose: () => this.refreshSoon(),
        },
      );
      opened.opened.catch((error: unknown) => error instanceof StoreMisconfigured && this.#reject(error));
      this.#nodes.set(name, opened);
    }
    return opened;
  }

  /** Notes that a slot is another node's, and asks who has the others. */
  moved(slot: number, node: StoreNode): void {
    this.#slots[slot] = node;
    this.refreshSoon();
  }

  /** Asks who has which slots, soon or after the question that is under way is answered. */
  refreshSoon(): void {
    if (this.#isAsking) this.#isAskedAgain = true;
    else this.#later(SHORTEST_MS);
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    for (const { node } of this.#nodes.values()) closeNode(node);
    for (const node of this.#leaving) closeNode(node);
  }

  #isMaster(name: string): boolean {
    return this.#masters.some((master) => master.name === name);
  }

  #later(ms: number): void {
    const due = performance.now() + ms;
    if (this.#isClosed || (this.#timer !== undefined && this.#due <= due)) return;
    clearTimeout(this.#timer);
    this.#due = due;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#refresh();
    }, ms);
    this.#timer.unref();
  }

  async #refresh(): Promise<void> {
    if (this.#isAsking || this.#isClosed) return;
    this.#isAsking = true;
    this.#isAskedAgain = false;
    const ranges = await this.#ask();
    this.#isAsking = false;
    if (this.#isClosed) return;
    if (ranges) this.#adopt(ranges);
    else if (++this.#unanswered >= UNANSWERED) {
      this.#unanswered = 0;
      for (const seed of this.#target.hosts) this.open(seed);
    }
    if (this.isWhole()) this.#resolve();
    if (this.#isAskedAgain || !this.isWhole()) this.#later(RETRY_MS);
  }

  /**
   * Asks all connected nodes, and takes the answer that most of them give: a single node may be cut off from the
   * others.
   */
  async #ask(): Promise<readonly Range[] | undefined> {
    const nodes = [...this.#nodes.values()].map(({ node }) => node).filter(({ reads }) => reads.isReady());
    const answers = await Promise.all(nodes.map((node) => this.#askOne(node)));
    const votes = new Map<string, { ranges: readonly Range[]; count: number }>();
    for (const ranges of answers) {
      if (!ranges) continue;
      const text = JSON.stringify(ranges);
      const vote = votes.get(text) ?? { ranges, count: 0 };
      votes.set(text, { ranges, count: vote.count + 1 });
    }
    return [...votes.values()].sort((a, b) => b.count - a.count)[0]?.ranges;
  }

  async #askOne({ reads }: StoreNode): Promise<readonly Range[] | undefined> {
    try {
      const host = reads.redis.options.host ?? "";
      return rangesOf(await within(ANSWER_MS, reads.redis.cluster("SLOTS"), "no answer in time"), host);
    } catch {
      return undefined;
    }
  }

  #adopt(ranges: readonly Range[]): void {
    this.#unanswered = 0;
    const before = new Set(this.#masters);
    const slots: (StoreNode | undefined)[] = new Array(SLOTS).fill(undefined);
    const masters = new Set<StoreNode>();
    for (const { first, last, master } of ranges) {
      const { node, opened } = this.open(master);
      if (!before.has(node)) opened.then(this.#resolveSome, () => {});
      masters.add(node);
      slots.fill(node, first, last + 1);
    }
    this.#isCovered = !slots.includes(undefined);
    for (let slot = 0; slot < SLOTS; slot++) this.#slots[slot] = slots[slot];
    this.#masters = [...masters];
    if (masters.size === 0) return;
    for (const [name, { node }] of this.#nodes) {
      if (masters.has(node)) {
        if (!before.has(node) && isNodeReady(node)) this.#options.onReady();
        continue;
      }
      // The node has no slots any more, or never had any.
      this.#nodes.delete(name);
      this.#leave(node);
    }
  }

  #leave(node: StoreNode): void {
    this.#leaving.add(node);
    const close = () => {
      this.#leaving.delete(node);
      closeNode(node);
    };
    setTimeout(close, this.#options.timeoutMs).unref();
  }
}

/** What CLUSTER SLOTS answers: for each range its first and last slot, then the nodes, the master first. */
function rangesOf(answer: unknown, askedHost: string): readonly Range[] {
  const rows = answer as [number, number, [string | null, number], ...unknown[]][];
  return rows
    .map(([first, last, [host, port]]) => ({ first, last, master: { host: host || askedHost, port } }))
    .sort((a, b) => a.first - b.first);
}
