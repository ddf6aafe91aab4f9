import { clearInterval, setInterval } from "node:timers";

/** Why a holding has to end: it took too long, or its client holds the most and the room is needed. */
export type EvictionReason = "timeout" | "over-budget";

/** Something that a client holds for a while: a body that is arriving, an unread response, a stream, a connection. */
export interface Holding {
  /** Ends it. It is no longer charged by then. */
  evict(reason: EvictionReason): void;
  /** Whether it can end without harm. Such holdings of a client give way first. Default: the oldest does. */
  isIdle?(): boolean;
  /** Whether it is over though nobody has released it; asked now and then, and before it is evicted. Default: no. */
  isOver?(): boolean;
}

/** What a client is charged for a holding. */
export interface Charge {
  readonly budget: ClientBudget;
  readonly client: Client;
  readonly holding: Holding;
  units: number;
  /** When it times out, by `performance.now()`. */
  readonly until: number;
}

/** A client, and what it holds. */
interface Client {
  /** Undefined: a proxy, whose connections carry the requests of many clients. */
  readonly key: string | undefined;
  /** The oldest first. */
  readonly charges: Set<Charge>;
  units: number;
}

/**
 * What a unit stands for, in bytes. Anything that is held is charged one at least: for the connection, stream and objects
 * around it.
 */
export const UNIT_BYTES = 16 * 1024;

function unitsOf(bytes: number): number {
  return Math.max(1, Math.ceil(bytes / UNIT_BYTES));
}

/** How often timeouts are checked, in milliseconds. */
const CHECK_MS = 250;

/** How many holdings of a client one search for an idle one looks at. */
const SEARCHED = 32;

/**
 * A bound that all clients share. What a client holds is charged to it.
 *
 * When there is no room for more, the client that holds the most loses something: what is idle, else its oldest. But it
 * loses nothing to a client that would then hold as much as itself. Such a client gets room only by what is idle of its own,
 * and is refused otherwise. So a client that holds little is never refused because of what others hold.
 *
 * What is over within its turn of the event loop is not charged at all: see `Turn`.
 */
export class ClientBudget {
  readonly #max: number;
  readonly #clients = new Map<string | undefined, Client>();
  /** The clients by the units that they hold. Proxies are not among them: they give way to nobody. */
  readonly #byUnits = new Map<number, Set<Client>>();
  /** No client holds more units than this. It may be too high: `#largest` counts it down. */
  #mostUnits = 0;
  #total = 0;
  #timer: NodeJS.Timeout | undefined;

  /** @param max how many units all clients may hold together. Default: no limit */
  constructor(max = Infinity) {
    this.#max = max;
  }

  /**
   * Charges a client for a holding. This may evict holdings of others; undefined when there is no room.
   *
   * @param key the client; undefined: a proxy
   * @param options `bytes`: how many it has; up to `UNIT_BYTES`, and by default, it is charged one unit. `timeoutMs`: how
   * long it may last, in milliseconds; by default for ever
   */
  charge(
    key: string | undefined,
    holding: Holding,
    { bytes = 0, timeoutMs = Infinity }: { readonly bytes?: number; readonly timeoutMs?: number } = {},
  ): Charge | undefined {
    const client = this.#clients.get(key) ?? { key, charges: new Set(), units: 0 };
    const units = unitsOf(bytes);
    if (!this.#makeRoom(client, units)) return undefined;
    this.#clients.set(key, client);
    const charge = { budget: this, client, holding, units, until: performance.now() + timeoutMs };
    client.charges.add(charge);
    this.#addTo(client, units);
    if (timeoutMs !== Infinity) this.#timer ??= setInterval(() => this.#endTimedOut(), CHECK_MS).unref();
    return charge;
  }

  /** Sets how many bytes a holding has, if it is not released. This may evict it, or those of others. */
  resize(charge: Charge, bytes: number): void {
    const more = unitsOf(bytes) - charge.units;
    if (more === 0 || !charge.client.charges.has(charge)) return;
    if (more > 0 && !this.#makeRoom(charge.client, more)) {
      this.#evict(charge, "over-budget");
      return;
    }
    charge.units += more;
    this.#addTo(charge.client, more);
  }

  /** Ends a charge; false when it had ended before. */
  release(charge: Charge): boolean {
    const { client, units } = charge;
    if (!client.charges.delete(charge)) return false;
    this.#addTo(client, -units);
    if (client.charges.size === 0) this.#clients.delete(client.key);
    return true;
  }

  /** Makes room for more of a client; false when it has to be refused. */
  #makeRoom(client: Client, more: number): boolean {
    while (this.#total + more > this.#max) {
      const largest = this.#largest();
      const givesWay = largest && (client.key === undefined || largest.units > client.units + more);
      const victim = givesWay ? (idleOf(largest) ?? firstOf(largest.charges)) : idleOf(client);
      if (!victim) return false;
      this.#evict(victim, "over-budget");
    }
    return true;
  }

  #evict(charge: Charge, reason: EvictionReason): void {
    if (this.release(charge) && !charge.holding.isOver?.()) charge.holding.evict(reason);
  }

  /**
   * One of the clients that hold the most. The search counts `#mostUnits` down to what one holds. It was counted up by as
   * much before, so the search is cheap on average.
   */
  #largest(): Client | undefined {
    while (this.#mostUnits > 0) {
      const clients = this.#byUnits.get(this.#mostUnits);
      if (clients) return firstOf(clients);
      this.#mostUnits--;
    }
    return undefined;
  }

  #addTo(client: Client, units: number): void {
    const before = client.units;
    this.#total += units;
    client.units += units;
    if (client.key === undefined) return;
    const peers = this.#byUnits.get(before);
    peers?.delete(client);
    if (peers?.size === 0) this.#byUnits.delete(before);
    if (client.units === 0) return;
    const others = this.#byUnits.get(client.units);
    if (others) others.add(client);
    else this.#byUnits.set(client.units, new Set([client]));
    this.#mostUnits = Math.max(this.#mostUnits, client.units);
  }

  #endTimedOut(): void {
    const now = performance.now();
    let isTimed = false;
    for (const { charges } of this.#clients.values()) {
      for (const charge of charges) {
        if (charge.holding.isOver?.()) this.release(charge);
        else if (now >= charge.until) this.#evict(charge, "timeout");
        else isTimed ||= charge.until !== Infinity;
      }
    }
    if (isTimed) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }
}

/**
 * An idle holding of a client. Holdings found busy are moved to the end, so that the next search begins with others.
 */
function idleOf({ charges }: Client): Charge | undefined {
  let left = SEARCHED;
  for (const charge of charges) {
    const { holding } = charge;
    if (!holding.isIdle || left-- === 0) return undefined;
    if (holding.isIdle()) return charge;
    charges.delete(charge);
    charges.add(charge);
  }
  return undefined;
}

function firstOf<T>(set: ReadonlySet<T>): T | undefined {
  for (const first of set) return first;
  return undefined;
}
