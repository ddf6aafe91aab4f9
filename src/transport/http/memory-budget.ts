import { clearInterval, setInterval } from "node:timers";

/** Why a holder was evicted: it was too old, or it did not fit. */
export type EvictionReason = "timeout" | "over-budget";

/** Something that holds memory until it is complete, such as a partly received body or an unread response. */
export interface MemoryHolder {
  /** Stands for its connection; undefined where the runtime does not tell which one it is. */
  readonly connection: object | undefined;
  /** Called after the budget removed it, because it timed out or exceeded a limit. */
  readonly evict: (reason: EvictionReason) => void;
  /** Called on every tick that it survives, so that it can shrink its buffers. */
  readonly onTick?: () => void;
}

/** What a budget knows of a holder. */
interface Entry {
  readonly connection: ConnectionUsage | undefined;
  /** The tick at which it was added. */
  readonly addedAt: number;
  /** How much it holds, with its fixed cost. */
  bytes: number;
}

/** The bytes that all holders of one connection hold. */
interface ConnectionUsage {
  bytes: number;
}

/** The limits of a memory budget. */
export interface MemoryBudgetOptions {
  /** How long a holder may stay, in milliseconds. */
  readonly timeoutMs: number;
  /** The limit for all holders together, in bytes. Beyond it the oldest is evicted. */
  readonly maxBytes: number;
  /** The limit for the holders of one connection, in bytes. Beyond it the one that grew is evicted. */
  readonly maxConnectionBytes: number;
  /** The fixed cost of a holder, in bytes: the objects around it. It makes empty ones count too. */
  readonly overheadBytes: number;
}

/** One timer serves all holders. It ticks this many times per timeout. */
const TICKS_PER_TIMEOUT = 8;

/**
 * Limits how much memory incomplete requests or responses hold, and for how long. Adding and removing a holder costs
 * little, because nearly all of them complete at once.
 */
export class MemoryBudget {
  readonly #options: MemoryBudgetOptions;
  /** The oldest first. */
  readonly #entries = new Map<MemoryHolder, Entry>();
  readonly #connections = new WeakMap<object, ConnectionUsage>();
  readonly #onInterval = () => this.#advance();
  #timer: NodeJS.Timeout | undefined;
  #tick = 0;
  #bytes = 0;

  constructor(options: MemoryBudgetOptions) {
    this.#options = options;
  }

  /** Adds a holder of so many bytes. This may evict it, or others, at once. */
  add(holder: MemoryHolder, bytes: number): void {
    const connection = holder.connection && this.#usageOf(holder.connection);
    this.#entries.set(holder, { connection, addedAt: this.#tick, bytes: 0 });
    this.#timer ??= setInterval(this.#onInterval, this.#options.timeoutMs / TICKS_PER_TIMEOUT).unref();
    this.resize(holder, bytes);
  }

  /** Sets how many bytes a holder holds, if it has not been removed. This may evict it, or others, at once. */
  resize(holder: MemoryHolder, bytes: number): void {
    const entry = this.#entries.get(holder);
    if (!entry) return;
    const more = this.#options.overheadBytes + bytes - entry.bytes;
    this.#addBytes(entry, more);
    if (more > 0) this.#enforceLimits(holder, entry);
  }

  /** Removes a holder; false when it was removed before. */
  remove(holder: MemoryHolder): boolean {
    const entry = this.#entries.get(holder);
    if (!entry) return false;
    this.#entries.delete(holder);
    this.#addBytes(entry, -entry.bytes);
    return true;
  }

  #usageOf(connection: object): ConnectionUsage {
    let usage = this.#connections.get(connection);
    if (usage === undefined) {
      usage = { bytes: 0 };
      this.#connections.set(connection, usage);
    }
    return usage;
  }

  #addBytes(entry: Entry, bytes: number): void {
    entry.bytes += bytes;
    this.#bytes += bytes;
    if (entry.connection) entry.connection.bytes += bytes;
  }

  #enforceLimits(newest: MemoryHolder, { connection }: Entry): void {
    const { maxBytes, maxConnectionBytes } = this.#options;
    if (connection && connection.bytes > maxConnectionBytes) this.#evict(newest, "over-budget");
    // The oldest entry is the least likely to complete; a new one probably completes soon.
    while (this.#bytes > maxBytes) {
      const oldest = this.#entries.keys().next();
      if (oldest.done) return;
      this.#evict(oldest.value, "over-budget");
    }
  }

  #evict(holder: MemoryHolder, reason: EvictionReason): void {
    if (this.remove(holder)) holder.evict(reason);
  }

  #advance(): void {
    this.#tick++;
    for (const [holder, { addedAt }] of this.#entries) {
      const age = this.#tick - addedAt;
      // The first tick may come right after the holder was added.
      if (age > TICKS_PER_TIMEOUT) this.#evict(holder, "timeout");
      else if (age > 1) holder.onTick?.();
    }
    if (this.#entries.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }
}
