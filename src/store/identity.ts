import { randomBytes } from "node:crypto";
import type { Redis } from "ioredis";
import { StoreUnavailable } from "../domain/errors.ts";
import type { DataCheck, StoreClient } from "./connection/client.ts";
import { SLOTS, slotOf } from "./connection/cluster.ts";
import { redirectionOf } from "./connection/errors.ts";
import { FORMAT_KEY } from "./keys.ts";
import { NOTE_TIME, SET_IDENTITY } from "./scripts.ts";

/*
 * After a restart, Redis may be empty or have older data, or REDIS_URL may lead to another Redis. The service would
 * then create every group a second time, with another token. So the data has an identity. Each process keeps this
 * identity in memory, and refuses other data.
 *
 * `ug:format` contains the layout, a random id, and the number of times that operators accepted the data. After an
 * acceptance, the key also contains the id of the replaced data. In a Cluster, further keys contain identities for
 * parts of the slots, to detect the loss of a single shard. Another key contains a time by Redis' clock, to detect
 * older data.
 */

/** String: Redis' clock at the last write to this key by any process. The key has the slot of `ug:format`. */
export const TIME_KEY = `ug:{${FORMAT_KEY}}:time`;

/** The tolerated loss of data, in milliseconds. A failover or a crash usually loses one or two seconds. */
const MAX_LOSS_MS = 60_000;

/**
 * The number of further keys in a Cluster. With up to 16 shards of equal size, each shard has at least one further key.
 */
const SLOT_PARTS = 16;

interface Identity {
  readonly layout: string;
  readonly id: string;
  readonly accepted: number;
  /** The id of the data that the last acceptance replaced. */
  readonly replaced: string;
}

interface Mark {
  /** The id of the data that this process uses. Undefined before the first read. */
  id: string | undefined;
  /** The last value that was read, even if this process refuses the data. */
  last: Identity;
  /** The reason why this process refuses the data. Undefined if the data is used. */
  fault: string | undefined;
}

interface IdentityDeps {
  readonly client: StoreClient;
  /** The number of the layout of this release. */
  readonly layout: string;
  readonly isCluster: boolean;
  /**
   * Receives the reason when this process begins to refuse the data, and undefined when this process uses the data
   * again.
   */
  readonly onChange: (fault: string | undefined) => void;
}

/** Compares the identity of the data in Redis with the identity that this process has stored. */
export class StoreIdentity implements DataCheck {
  readonly #deps: IdentityDeps;
  readonly #marks: ReadonlyMap<string, Mark>;
  /** The latest time that was read from `TIME_KEY`. */
  #time = 0;
  #fault: string | undefined;
  #current: Promise<void> = Promise.resolve();
  #next: Promise<void> | undefined;

  constructor(deps: IdentityDeps) {
    this.#deps = deps;
    const keys = [FORMAT_KEY, ...(deps.isCluster ? partKeys() : [])];
    this.#marks = new Map(keys.map((key) => [key, { id: undefined, last: parse(""), fault: undefined }]));
  }

  refusal(): StoreUnavailable | undefined {
    if (this.#fault === undefined) return undefined;
    return new StoreUnavailable(new Error(this.#fault), "not_made", "data_replaced");
  }

  /**
   * Stores the identity of the data for later checks. Data without an identity gets a new identity. Shards that do not
   * answer are skipped until the next call.
   *
   * @returns the layout of the data
   * @throws StoreUnavailable, TooFewReplicas
   */
  async adopt(): Promise<string> {
    const { client, layout } = this.#deps;
    const adoptOne = async ([key, mark]: readonly [string, Mark]) => {
      // The read comes first, because Redis may refuse changes now.
      let text = await client.run("identity", "get", [key]);
      if (text === null) {
        const args = { key, layout, id: newId(), accepted: undefined };
        [, , text = ""] = await client.change("identity", SET_IDENTITY, args);
      }
      mark.last = parse(text);
      mark.id = mark.last.id;
      return mark.last.layout;
    };
    const unread = [...this.#marks].filter(([, { id }]) => id === undefined);
    const [first] = await Promise.allSettled(unread.map(adoptOne));
    if (unread[0]?.[0] !== FORMAT_KEY) return layout;
    if (first?.status === "rejected") throw first.reason;
    // If Redis refuses changes now, the time is written later.
    await this.noteTime().catch(() => {});
    return first?.value ?? layout;
  }

  /**
   * Writes Redis' clock to `TIME_KEY`. The write does not wait for replicas, because such a wait would delay changes.
   *
   * @throws StoreUnavailable
   */
  async noteTime(): Promise<void> {
    if (this.#fault !== undefined) return;
    const [time] = await this.#deps.client.ask("identity", NOTE_TIME, { format: FORMAT_KEY, time: TIME_KEY });
    this.#time = Math.max(this.#time, Number(time));
  }

  /** Checks the data of the Redis behind a new connection. Rejects if the connection is lost. */
  async checkConnection(redis: Redis): Promise<void> {
    const get = (key: string) => redis.get(key).catch(unlessOtherNode);
    await this.#check(get);
  }

  /**
   * Checks the data. If a check is in progress, waits for the next check. Calls that wait for the same check share its
   * result.
   *
   * @throws StoreUnavailable if no key of the identity can be read
   */
  check(): Promise<void> {
    this.#next ??= this.#current
      .catch(() => {})
      .then(() => {
        this.#next = undefined;
        this.#current = this.#checkAll();
        return this.#current;
      });
    return this.#next;
  }

  async #checkAll(): Promise<void> {
    const failures: unknown[] = [];
    await this.#check((key) =>
      this.#deps.client.run("identity", "get", [key], "not_made").catch((error: unknown) => {
        failures.push(error);
        return undefined;
      }),
    );
    // In a Cluster, a single shard may be down. The check reads one key per mark, and the time. If more reads than
    // marks failed, all reads failed.
    if (failures.length > this.#marks.size) throw failures[0];
  }

  /** Accepts the current data for all processes. @throws StoreUnavailable, TooFewReplicas */
  async accept(): Promise<void> {
    const { client, layout } = this.#deps;
    const accepted = [...this.#marks].map(([key, { id = newId(), last }]) =>
      client.change("identity", SET_IDENTITY, { key, layout, id, accepted: last.accepted }),
    );
    await Promise.all(accepted);
    await this.check();
  }

  /** @param get returns undefined if the key cannot be read now */
  async #check(get: (key: string) => Promise<string | null | undefined>): Promise<void> {
    const keys = [...this.#marks.keys()];
    const [time, ...texts] = await Promise.all([TIME_KEY, ...keys].map(get));
    for (const [i, [key, mark]] of [...this.#marks].entries()) {
      const text = texts[i];
      if (text !== undefined && mark.id !== undefined) this.#note(mark, text, key === FORMAT_KEY ? time : undefined);
    }
    const { fault } = [...this.#marks.values()].find((mark) => mark.fault !== undefined) ?? {};
    if (fault === this.#fault) return;
    const isNews = fault === undefined || this.#fault === undefined;
    this.#fault = fault;
    if (isNews) this.#deps.onChange(fault);
  }

  /** Compares a value with the stored identity. @param time undefined if the time is unknown */
  #note(mark: Mark, text: string | null, time: string | null | undefined): void {
    const { last } = mark;
    const found = parse(text ?? "");
    const { layout, id } = found;
    // True if, since the last read, an operator has accepted the same data as at that read, or data that replaces the
    // data of this process.
    const isAccepted =
      layout === this.#deps.layout && found.accepted > last.accepted && (id === last.id || found.replaced === mark.id);
    const lostMs = time === undefined ? 0 : this.#time - Number(time);
    if (text !== null) mark.last = found;
    mark.fault = undefined;
    if (text === null) mark.fault = "the data is gone: Redis, or a shard of the Cluster, is empty";
    else if (layout !== this.#deps.layout)
      mark.fault = `the data in Redis has layout ${layout}, but this release has layout ${this.#deps.layout}`;
    else if (!isAccepted && id !== mark.id)
      mark.fault = "REDIS_URL leads to another Redis, or Redis was emptied and then used again";
    else if (!isAccepted && lostMs > MAX_LOSS_MS)
      mark.fault = `Redis has lost the last ${Math.round(lostMs / 1000)} s of its data`;
    if (mark.fault !== undefined) return;
    mark.id = id;
    if (time !== undefined) this.#time = isAccepted ? Number(time) : Math.max(this.#time, Number(time));
  }
}

function newId(): string {
  return randomBytes(8).toString("hex");
}

function parse(text: string): Identity {
  const [layout = "", id = "", accepted = "0", replaced = ""] = text.split(" ");
  return { layout, id, accepted: Number(accepted), replaced };
}

/** Returns a key for each of `SLOT_PARTS` equal parts of the slots. */
function partKeys(): string[] {
  const keys = new Map<number, string>();
  for (let i = 0; keys.size < SLOT_PARTS; i++) {
    const key = `${FORMAT_KEY}:{${i}}`;
    const part = Math.floor((slotOf(key) * SLOT_PARTS) / SLOTS);
    if (!keys.has(part)) keys.set(part, key);
  }
  return [...keys.values()];
}

function unlessOtherNode(error: Error): undefined {
  if (redirectionOf(error) === undefined) throw error;
}
