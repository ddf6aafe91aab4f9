import { setTimeout as pause } from "node:timers/promises";
import type { Environment } from "../domain/environment.ts";
import { type ChangeOutcome, RecordUnreadable, StoreUnavailable, TokenTaken } from "../domain/errors.ts";
import { randomBase62 } from "../domain/token.ts";
import type { StoreClient } from "./client.ts";
import { foreignTokenKey, groupKey, groupKeyOf, prefixFor } from "./keys.ts";

/** The length of a claim's nonce: about 71 bits. */
const NONCE_LENGTH = 12;

/** The nonce of an entry that no claim goes with: it only says where to look. */
const NO_CLAIM = "-".repeat(NONCE_LENGTH);

/** For how long a group may be given a token under a claim, in milliseconds. */
export const CLAIM_MS = 60 * 1000;

/**
 * How long a claim that was ended stays refused, in milliseconds: longer than `CLAIM_MS` and the longest time that a call
 * to Redis may take together.
 */
const REFUSED_MS = 5 * 60 * 1000;

/** How much longer a hint lasts than what it is for, in milliseconds: two nodes need not agree on the time. */
const HINT_SLACK_MS = 60 * 1000;

/** How often a claim is tried while others claim the same token. */
const TRIES = 20;

/** How long the claim of another group is left alone, in milliseconds, and up to twice as long. */
const PATIENCE_MS = 20;

/**
 * Which group a token of another system may be of.
 *
 * An entry, `NONCE` and the id, is made before the group has the token: a claim. As the entry and the group are in two
 * slots, a claim may be left behind by what failed in between. So another group may take the token over when the first one
 * does not have it; and first it ends the claim in the partition of that group, by the nonce, so that what is still about
 * to use it there is refused. A token is therefore never of two groups at once, whatever fails and whenever.
 *
 * The record of the group decides who has the token; an entry without it finds nothing.
 */
export class ForeignTokens {
  readonly #client: StoreClient;

  constructor(client: StoreClient) {
    this.#client = client;
  }

  /**
   * The id of the group that a token may be of.
   *
   * @param outcome what a failure means for the change that it is a part of; default: there is none
   */
  async find(environment: Environment, digest: string, outcome?: ChangeOutcome): Promise<string | undefined> {
    return (await this.#entry(environment, digest, outcome))?.id;
  }

  /** What `ugResolve` answers, for a token of another system. */
  async resolve(environment: Environment, digest: string): Promise<readonly string[]> {
    const id = await this.find(environment, digest);
    if (id === undefined) return [];
    const key = groupKeyOf(environment, id);
    return this.#client.run("resolve", key, (redis) => redis.ugResolveAt(key, id, digest));
  }

  /**
   * Claims a token for a group, which may be given it under the claim for `CLAIM_MS`.
   *
   * @param ended the nonce of a claim of the same group that has been ended
   * @returns the nonce
   * @throws TokenTaken when another group has it; StoreUnavailable
   */
  async claim(environment: Environment, digest: string, id: string, ended?: string): Promise<string> {
    const key = foreignTokenKey(prefixFor(environment, digest), digest);
    const made = randomBase62(NONCE_LENGTH) + id;
    let replaced = "";
    let seen = "";
    for (let tries = 0; tries < TRIES; tries++) {
      const [, , text] = await this.#client.prepare("claim-token", key, (redis, deadline) =>
        redis.ugClaimToken(key, deadline, made, replaced),
      );
      const entry = entryOf(text);
      if (entry.id === id && entry.nonce !== NO_CLAIM && entry.nonce !== ended) return entry.nonce;
      if (entry.id !== id) {
        if (entry.text !== seen) {
          // It may be in use. Were it ended at once, many that want one token would end each other's claims for long.
          seen = entry.text;
          await pause(PATIENCE_MS * (1 + Math.random()));
          continue;
        }
        const [state] = await this.#end(environment, digest, entry, false);
        if (state !== "made") throw new TokenTaken();
      }
      replaced = entry.text;
    }
    throw new StoreUnavailable(new Error("claim-token: too many claim the same token"), "not_made");
  }

  /**
   * Forgets a token that a group has no more; it does nothing when a group has it after all. While the token is on its
   * grace a hint is left.
   *
   * @param keepMs how long to leave a hint at the least, in milliseconds
   */
  async release(environment: Environment, digest: string, keepMs = 0): Promise<void> {
    const entry = await this.#entry(environment, digest);
    if (entry === undefined) return;
    const [state, , graceMs] = await this.#end(environment, digest, entry, true);
    if (state !== "made") return;
    const leftMs = Math.max(Number(graceMs), keepMs);
    const key = foreignTokenKey(prefixFor(environment, digest), digest);
    await this.#client.change("forget-token", key, (redis, deadline) =>
      redis.ugForgetToken(
        key,
        deadline,
        entry.text,
        NO_CLAIM + entry.id,
        String(leftMs > 0 ? leftMs + HINT_SLACK_MS : 0),
      ),
    );
  }

  /** As `release`, without being waited for: what fails leaves an entry behind that finds nothing. */
  releaseLater(environment: Environment, digest: string, keepMs = 0): void {
    this.release(environment, digest, keepMs).catch(() => {});
  }

  async #entry(environment: Environment, digest: string, outcome?: ChangeOutcome): Promise<Entry | undefined> {
    const key = foreignTokenKey(prefixFor(environment, digest), digest);
    const text = await this.#client.run("foreign-token", key, (redis) => redis.get(key), outcome);
    return text === null ? undefined : entryOf(text);
  }

  #end(environment: Environment, digest: string, { id, nonce }: Entry, isGraceNone: boolean): Promise<string[]> {
    const prefix = prefixFor(environment, id);
    const key = groupKey(prefix, id);
    return this.#client.prepare("end-claim", key, (redis, deadline) =>
      redis.ugEndClaim(key, deadline, prefix, digest, nonce, String(REFUSED_MS), isGraceNone ? "1" : ""),
    );
  }
}

interface Entry {
  readonly text: string;
  readonly nonce: string;
  readonly id: string;
}

/** @throws RecordUnreadable */
function entryOf(text = ""): Entry {
  const id = text.slice(NONCE_LENGTH);
  if (id === "") throw new RecordUnreadable(new Error("the entry of a foreign token names no group"));
  return { text, nonce: text.slice(0, NONCE_LENGTH), id };
}
