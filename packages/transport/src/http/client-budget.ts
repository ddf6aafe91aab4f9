import { clearInterval, setInterval } from "node:timers";

/**
 * The reason of an eviction. `timeout`: the resource has existed for too long. `over-budget`: the budget is used up.
 */
export type EvictionReason = "timeout" | "over-budget";

/** A resource that a client holds: an arriving body, an unread response, a stream or a connection. */
export interface Resource {
  /** Closes or ends the resource. The budget releases the charge of the resource before it calls this method. */
  evict(reason: EvictionReason): void;
  /** Returns whether the resource does no work at present. Idle resources are evicted first. Default: false. */
  isIdle?(): boolean;
  /**
   * Returns whether the resource has finished. If so, the budget releases the charge and does not call `evict`.
   * Default: false.
   */
  isOver?(): boolean;
}

/** The part of the budget that one resource uses. */
export interface Charge {
  /**
   * Sets the number of charged bytes. Does nothing if the charge is released. May evict this resource or other
   * resources.
   */
  resize(bytes: number): void;
  /** Ends the charge. Call this method when the resource ends. Returns false if the charge is already released. */
  release(): boolean;
}

interface OpenCharge extends Charge {
  readonly client: Client;
  readonly resource: Resource;
  units: number;
  /** The time at which the resource is evicted, by `performance.now()`. */
  readonly until: number;
}

interface Client {
  /** The name of the client; undefined for a proxy. The connections of a proxy carry requests of many clients. */
  readonly key: string | undefined;
  readonly charges: Set<OpenCharge>;
  units: number;
}

/**
 * The size of a unit, in bytes. Each resource counts as at least one unit, because its connection, its stream and its
 * objects need memory.
 */
export const UNIT_BYTES = 16 * 1024;

function unitsOf(bytes: number): number {
  return Math.max(1, Math.ceil(bytes / UNIT_BYTES));
}

const CHECK_MS = 250;

/** The maximum number of resources to check in one search for an idle resource. */
const SEARCHED = 32;

/**
 * A budget that all clients share. Each client is charged for its resources. The largest client is the client with the
 * most units.
 *
 * If the budget has no room for a new charge, the largest client loses an idle resource. If the largest client has no
 * idle resource, it loses its oldest resource. But if the new charge would make the charged client one of the largest
 * clients, only the charged client loses an idle resource. If the charged client has no idle resource, the charge is
 * refused. A charge is therefore never refused because of the resources of a larger client.
 */
export class ClientBudget {
  readonly #max: number;
  readonly #clients = new Map<string | undefined, Client>();
  /** All clients except proxies, by their number of units. A proxy never loses a resource to other clients. */
  readonly #byUnits = new Map<number, Set<Client>>();
  /** No client has more units than this number. `#largest` lowers this number. */
  #mostUnits = 0;
  #total = 0;
  #timer: NodeJS.Timeout | undefined;

  /** @param max the maximum number of units of all clients. Default: no limit */
  constructor(max = Infinity) {
    this.#max = max;
  }

  /**
   * Charges a client for a resource. May evict resources of this client or of other clients. Returns undefined if the
   * budget has no room.
   *
   * @param key the client; undefined for a proxy
   * @param options `bytes` is the size of the resource. Default: one unit. `timeoutMs` is the maximum duration of the
   * resource, in milliseconds. Default: no limit
   */
  charge(
    key: string | undefined,
    resource: Resource,
    { bytes = 0, timeoutMs = Infinity }: { readonly bytes?: number; readonly timeoutMs?: number } = {},
  ): Charge | undefined {
    const client = this.#clients.get(key) ?? { key, charges: new Set(), units: 0 };
    const units = unitsOf(bytes);
    if (!this.#makeRoom(client, units)) return undefined;
    this.#clients.set(key, client);
    const charge: OpenCharge = {
      client,
      resource,
      units,
      until: performance.now() + timeoutMs,
      resize: (size) => this.#resize(charge, size),
      release: () => this.#release(charge),
    };
    client.charges.add(charge);
    this.#addTo(client, units);
    if (timeoutMs !== Infinity) this.#timer ??= setInterval(() => this.#endTimedOut(), CHECK_MS).unref();
    return charge;
  }

  #resize(charge: OpenCharge, bytes: number): void {
    const more = unitsOf(bytes) - charge.units;
    if (more === 0 || !charge.client.charges.has(charge)) return;
    if (more > 0 && !this.#makeRoom(charge.client, more)) {
      this.#evict(charge, "over-budget");
      return;
    }
    charge.units += more;
    this.#addTo(charge.client, more);
  }

  #release(charge: OpenCharge): boolean {
    const { client, units } = charge;
    if (!client.charges.delete(charge)) return false;
    this.#addTo(client, -units);
    if (client.charges.size === 0) this.#clients.delete(client.key);
    return true;
  }

  /** Evicts resources until the budget has room for `more` units. Returns false if the charge must be refused. */
  #makeRoom(client: Client, more: number): boolean {
    while (this.#total + more > this.#max) {
      const largest = this.#largest();
      const takesFromLargest = largest && (client.key === undefined || largest.units > client.units + more);
      const victim = takesFromLargest ? (idleOf(largest) ?? firstOf(largest.charges)) : idleOf(client);
      if (!victim) return false;
      this.#evict(victim, "over-budget");
    }
    return true;
  }

  #evict(charge: OpenCharge, reason: EvictionReason): void {
    if (this.#release(charge) && !charge.resource.isOver?.()) charge.resource.evict(reason);
  }

  /**
   * Returns a client with the most units. Takes constant time on average, because each step of the loop reverses an
   * increase of `#mostUnits` by `#addTo`.
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
        if (charge.resource.isOver?.()) this.#release(charge);
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
 * Returns an idle resource of a client. Moves the checked busy resources to the end, so that the next search begins
 * with other resources.
 */
function idleOf({ charges }: Client): OpenCharge | undefined {
  let left = SEARCHED;
  for (const charge of charges) {
    const { resource } = charge;
    if (!resource.isIdle || left-- === 0) return undefined;
    if (resource.isIdle()) return charge;
    charges.delete(charge);
    charges.add(charge);
  }
  return undefined;
}

function firstOf<T>(set: ReadonlySet<T>): T | undefined {
  for (const first of set) return first;
  return undefined;
}
