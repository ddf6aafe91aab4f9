import { randomBytes } from "node:crypto";
import type { Redis } from "ioredis";
import { StoreUnavailable } from "../domain/errors.ts";
import type { DataCheck, StoreClient } from "./connection/client.ts";
import { SLOTS, slotOf } from "./connection/cluster.ts";
import { redirectionOf } from "./connection/errors.ts";
import { FORMAT_KEY } from "./keys.ts";
import { NOTE_TIME, SET_IDENTITY } from "./scripts.ts";

/*
 * After a restart, Redis may be empty or have older data, or REDIS_URL may lead to another Redis. With such data, the
 * service would create every group a second time, with another token. Each process therefore keeps the identity of the
 * data in memory, and refuses data with another identity.
 *
 * `ug:format` contains the number of the layout and a random id of the data. If Redis has other data, an operator can
 * accept the other data. The key also contains the number of acceptances, and the id of the data that the service used
 * before the last acceptance. In a Cluster, additional keys contain one identity for each range of slots, to detect the
 * loss of a single shard. Another key contains a time by Redis' clock, to detect older data.
 */

/**
 * String: the time of the last write to this key by any process, by Redis' clock. The key is in the same slot as
 * `ug:format`.
 */
export const TIME_KEY = `ug:{${FORMAT_KEY}}:time`;

/** The tolerated loss of data, in milliseconds. A failover or a crash usually loses one or two seconds of changes. */
const MAX_LOSS_MS = 60_000;

/**
 * The number of additional keys in a Cluster. If a Cluster has up to 16 equal shards, each shard has at least one of
 * these keys.
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
  /** The id of the data that this process uses. Undefined if the id has not been read yet. */
  id: string | undefined;
  /** The last value that was read, even if this process refuses the data. */
  last: Identity;
  /** The reason why this process refuses the data. Undefined if this process uses the data. */
  fault: string | undefined;
}

interface IdentityDeps {
  readonly client: StoreClient;
  /** The layout of this release. */
  readonly layout: string;
  readonly isCluster: boolean;
  /** Receives the reason when this process stops using the data, and undefined when it uses the data again. */
  readonly onChange: (fault: string | undefined) => void;
}

/** Compares the identity of the data in Redis with the identity that this process has in memory. */
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
   * Reads the identity of the data, and keeps it in memory for the next checks. If the data has no identity, writes a
   * new identity. Skips shards that do not answer. The next call reads the skipped shards.
   *
   * @returns the layout of the data
   * @throws StoreUnavailable, TooFewReplicas
   */
  async adopt(): Promise<string> {
    const { client, layout } = this.#deps;
    const adoptOne = async ([key, mark]: readonly [string, Mark]) => {
      // Read first, and write only if needed, because Redis may refuse changes now.
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
    // If Redis refuses changes now, ignore the error. A later call of `noteTime` writes the time.
    await this.noteTime().catch(() => {});
    return first?.value ?? layout;
  }

  /**
   * Writes the time of Redis' clock to `TIME_KEY`. Does not wait for replicas, because the wait would delay changes.
   *
   * @throws StoreUnavailable
   */
  async noteTime(): Promise<void> {
    if (this.#fault !== undefined) return;
    const [time] = await this.#deps.client.ask("identity", NOTE_TIME, { format: FORMAT_KEY, time: TIME_KEY });
    this.#time = Math.max(this.#time, Number(time));
  }

  /** Checks the data to which a new connection leads. Rejects if the connection is lost. */
  async checkConnection(redis: Redis): Promise<void> {
    const get = (key: string) => redis.get(key).catch(unlessOtherNode);
    await this.#check(get);
  }

  /**
   * Checks the data. If a check is in progress, waits for its end, and then starts the next check. All waiting calls
   * share this next check.
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
    // A single shard of a Cluster may be down, so throw only if all reads have failed. There is one read for each
    // identity, and one read for the time.
    if (failures.length > this.#marks.size) throw failures[0];
  }

  /**
   * Accepts the current data, so that all processes use this data, even if a process refuses this data now.
   *
   * @throws StoreUnavailable, TooFewReplicas
   */
  async accept(): Promise<void> {
    const { client, layout } = this.#deps;
    const accepted = [...this.#marks].map(([key, { id = newId(), last }]) =>
      client.change("identity", SET_IDENTITY, { key, layout, id, accepted: last.accepted }),
    );
    await Promise.all(accepted);
    await this.check();
  }

  /** @param get returns undefined if the key cannot be read now, and null if the key does not exist */
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

  /** Compares the value of a key with the identity in memory. @param time the value of `TIME_KEY`, if known */
  #note(mark: Mark, text: string | null, time: string | null | undefined): void {
    const { last } = mark;
    const found = parse(text ?? "");
    const { layout, id } = found;
    // Whether an operator has accepted the data for this process. The acceptance must be later than the last read. In
    // addition, either the accepted data is the data of the last read, or it replaced the data that this process uses.
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

/** Divides the slots into `SLOT_PARTS` equal parts, and returns one key for each part. */
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
