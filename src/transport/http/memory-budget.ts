import { clearInterval, setInterval } from "node:timers";

/** Why an entry was evicted: it was too old, or it did not fit. */
export type EvictionReason = "timeout" | "over-budget";

/** Something that holds memory until it is complete, such as a partly received body or an unread response. */
export interface BudgetEntry {
  /** Its size in bytes. Only the budget changes it. */
  bytes: number;
  /** The tick at which it was added. Only the budget sets it. */
  addedAt: number;
  /** The usage of its connection; undefined where the runtime does not tell which connection it is. */
  readonly connection: ConnectionUsage | undefined;
  /** Called after the budget removed the entry, because it timed out or exceeded a limit. */
  evict(reason: EvictionReason): void;
  /** Called on every tick that the entry survives, so that it can shrink its buffers. */
  readonly onTick?: (() => void) | undefined;
}

/** An entry of a connection that is only evicted. */
export function entryOf(
  connection: ConnectionUsage | undefined,
  evict: BudgetEntry["evict"],
  onTick?: () => void,
): BudgetEntry {
  return { bytes: 0, addedAt: 0, connection, evict, onTick };
}

/** The bytes that all entries of one connection hold. */
export interface ConnectionUsage {
  bytes: number;
}

/** The limits of a memory budget. */
export interface MemoryBudgetOptions {
  /** How long an entry may stay, in milliseconds. */
  readonly timeoutMs: number;
  /** The limit for all entries together, in bytes. Beyond it the oldest entry is evicted. */
  readonly maxBytes: number;
  /** The limit for the entries of one connection, in bytes. Beyond it the entry that grew is evicted. */
  readonly maxConnectionBytes: number;
  /** The fixed cost of an entry, in bytes: the objects around it. It makes empty entries count too. */
  readonly overheadBytes: number;
}

/** One timer serves all entries. It ticks this many times per timeout. */
const TICKS_PER_TIMEOUT = 8;

/**
 * Limits how much memory incomplete requests or responses hold, and for how long. Adding and removing an entry costs
 * two set operations, because nearly all entries complete at once.
 */
export class MemoryBudget {
  readonly #options: MemoryBudgetOptions;
  readonly #entries = new Set<BudgetEntry>();
  readonly #connections = new WeakMap<object, ConnectionUsage>();
  readonly #onInterval = () => this.#advance();
  #timer: NodeJS.Timeout | undefined;
  #tick = 0;
  #bytes = 0;

  constructor(options: MemoryBudgetOptions) {
    this.#options = options;
  }

  /** The usage of a connection. */
  usageOf(connection: object): ConnectionUsage {
    let usage = this.#connections.get(connection);
    if (usage === undefined) {
      usage = { bytes: 0 };
      this.#connections.set(connection, usage);
    }
    return usage;
  }

  /** Adds an entry. This may evict it, or others, at once. */
  add(entry: BudgetEntry, bytes: number): void {
    entry.addedAt = this.#tick;
    this.#entries.add(entry);
    if (this.#timer === undefined) {
      this.#timer = setInterval(this.#onInterval, this.#options.timeoutMs / TICKS_PER_TIMEOUT).unref();
    }
    this.#addBytes(entry, this.#options.overheadBytes + bytes);
    this.#enforceLimits(entry);
  }

  /** Changes the size of an entry by `bytes`, which may be negative. This may evict it, or others, at once. */
  adjust(entry: BudgetEntry, bytes: number): void {
    if (!this.#entries.has(entry)) return;
    this.#addBytes(entry, bytes);
    if (bytes > 0) this.#enforceLimits(entry);
  }

  /** Removes an entry; false when it was removed before. */
  remove(entry: BudgetEntry): boolean {
    if (!this.#entries.delete(entry)) return false;
    this.#addBytes(entry, -entry.bytes);
    return true;
  }

  #addBytes(entry: BudgetEntry, bytes: number): void {
    entry.bytes += bytes;
    this.#bytes += bytes;
    if (entry.connection) entry.connection.bytes += bytes;
  }

  #enforceLimits(newest: BudgetEntry): void {
    const { maxBytes, maxConnectionBytes } = this.#options;
    if (newest.connection && newest.connection.bytes > maxConnectionBytes) this.#evict(newest, "over-budget");
    // The oldest entry is the least likely to complete; a new one probably completes soon.
    while (this.#bytes > maxBytes) {
      const oldest = this.#entries.values().next();
      if (oldest.done) return;
      this.#evict(oldest.value, "over-budget");
    }
  }

  #evict(entry: BudgetEntry, reason: EvictionReason): void {
    if (this.remove(entry)) entry.evict(reason);
  }

  #advance(): void {
    this.#tick++;
    for (const entry of this.#entries) {
      const age = this.#tick - entry.addedAt;
      // The first tick may come right after the entry was added.
      if (age > TICKS_PER_TIMEOUT) this.#evict(entry, "timeout");
      else if (age > 1) entry.onTick?.();
    }
    if (this.#entries.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }
}
