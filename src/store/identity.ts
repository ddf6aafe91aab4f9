import { randomBytes } from "node:crypto";
import type { Redis } from "ioredis";
import { StoreUnavailable } from "../domain/errors.ts";
import type { DataCheck, StoreClient } from "./connection/client.ts";
import { slotOf } from "./connection/cluster.ts";
import { redirectionOf } from "./connection/errors.ts";
import { FORMAT_KEY } from "./keys.ts";
import { NOTE_TIME, SET_IDENTITY } from "./scripts.ts";

/*
 * Redis may come back empty, with an older state, or be another Redis at the same address. A service that goes on would
 * create every group a second time, with another token. So Redis has an identity, which this process remembers: `ug:format`
 * holds the layout, a random id, how often operators accepted the data, and the id in whose place it was accepted last. In a
 * Cluster further keys hold one for parts of the slots, so that the loss of a single shard is noticed. A time beside them, always
 * by Redis' clock, tells how old the data is.
 */

/** String: Redis' clock when a process last wrote to it. In the slot of `ug:format`. */
const TIME_KEY = `ug:{${FORMAT_KEY}}:time`;

/** How much of what was written Redis may lose, in milliseconds: a failover and a crash lose the last second or two. */
const MAX_LOSS_MS = 60_000;

/** The number of further keys in a Cluster: with equal shards, up to as many shards have one each. */
const PARTS = 16;

/** What a key with an identity holds. */
interface Identity {
  readonly layout: string;
  readonly id: string;
  /** How often operators accepted the data. */
  readonly accepted: number;
  /** The id that the accepting process knew when the data was accepted last. */
  readonly replaced: string;
}

/** What this process knows of a key that holds an identity. */
interface Mark {
  /** The id of the data that it uses; undefined: not read yet. */
  id: string | undefined;
  /** What the key held when it was last read, also if that is not used. */
  last: Identity;
  /** Why the data is not what it was; undefined: it is. */
  fault: string | undefined;
}

/** What the identity of Redis is kept with. */
interface IdentityDeps {
  readonly client: StoreClient;
  /** The number of the layout of this release. */
  readonly layout: string;
  readonly isCluster: boolean;
  /** Called when the data turns out not to be what it was, with the reason; and, without one, when it is known again. */
  readonly onChange: (fault: string | undefined) => void;
}

/** Whether Redis holds the data that this process knows. */
export class StoreIdentity implements DataCheck {
  readonly #deps: IdentityDeps;
  readonly #marks: ReadonlyMap<string, Mark>;
  /** The latest time that Redis was seen to hold, by its clock. */
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
   * Remembers the identity of Redis, which it is given if it has none. Parts of a Cluster that are away are left out, until
   * the next time.
   *
   * @returns the layout of the data
   * @throws StoreUnavailable, TooFewReplicas
   */
  async adopt(): Promise<string> {
    const { client, layout } = this.#deps;
    const adoptOne = async ([key, mark]: readonly [string, Mark]) => {
      // Where Redis refuses changes for now, the identity can be read.
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
    // Where Redis refuses changes for now, it is noted later.
    await this.noteTime().catch(() => {});
    return first?.value ?? layout;
  }

  /** Notes the time in Redis, without waiting for replicas: the wait would hold up changes. @throws StoreUnavailable */
  async noteTime(): Promise<void> {
    if (this.#fault !== undefined) return;
    const [time] = await this.#deps.client.ask("identity", NOTE_TIME, { key: TIME_KEY });
    this.#time = Math.max(this.#time, Number(time));
  }

  /** Checks what a new connection leads to. Rejects if it breaks. */
  async checkConnection(redis: Redis): Promise<void> {
    // A node of a Cluster refuses keys of other nodes.
    const get = (key: string) => redis.get(key).catch(ofOtherNode);
    await this.#check(get);
  }

  /**
   * Checks the data, in a check that begins after this call. Concurrent callers share it.
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
    // In a Cluster, one shard may be away. The time is read too.
    if (failures.length > this.#marks.size) throw failures[0];
  }

  /** Accepts the data as it is. All processes take it for theirs from then on. @throws StoreUnavailable, TooFewReplicas */
  async accept(): Promise<void> {
    const { client, layout } = this.#deps;
    const accepted = [...this.#marks].map(([key, { id = newId(), last }]) =>
      client.change("identity", SET_IDENTITY, { key, layout, id, accepted: last.accepted }),
    );
    await Promise.all(accepted);
    await this.check();
  }

  /** @param get undefined: the key cannot be read now */
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

  /** @param time undefined: not known */
  #note(mark: Mark, text: string | null, time: string | null | undefined): void {
    const { last } = mark;
    const found = parse(text ?? "");
    const { layout, id } = found;
    // An operator has accepted this data since this process read it, or in place of the data that this process uses.
    const isAccepted =
      layout === this.#deps.layout && found.accepted > last.accepted && (id === last.id || found.replaced === mark.id);
    const lostMs = time === undefined ? 0 : this.#time - Number(time);
    if (text !== null) mark.last = found;
    mark.fault = undefined;
    if (text === null) mark.fault = "its data is gone";
    else if (layout !== this.#deps.layout) mark.fault = `its data has layout ${layout}`;
    else if (!isAccepted && id !== mark.id) mark.fault = "it is another Redis, or was emptied";
    else if (!isAccepted && lostMs > MAX_LOSS_MS)
      mark.fault = `it has lost the last ${Math.round(lostMs / 1000)} s of its data`;
    if (mark.fault !== undefined) return;
    mark.id = id;
    if (time !== undefined) this.#time = isAccepted ? Number(time) : Math.max(this.#time, Number(time));
  }
}

function newId(): string {
  return randomBytes(8).toString("hex");
}

/** Parses what a key with an identity holds. */
function parse(text: string): Identity {
  const [layout = "", id = "", accepted = "0", replaced = ""] = text.split(" ");
  return { layout, id, accepted: Number(accepted), replaced };
}

/** One key for each of as many equal parts of the slots. */
function partKeys(): string[] {
  const keys = new Map<number, string>();
  for (let i = 0; keys.size < PARTS; i++) {
    const key = `${FORMAT_KEY}:{${i}}`;
    const part = Math.floor((slotOf(key) * PARTS) / 16_384);
    if (!keys.has(part)) keys.set(part, key);
  }
  return [...keys.values()];
}

/** @throws the error, unless it says that a key is not at this node of a Cluster */
function ofOtherNode(error: Error): undefined {
  if (redirectionOf(error) === undefined) throw error;
}
