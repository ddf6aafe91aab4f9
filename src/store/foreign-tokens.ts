import { setTimeout as pause } from "node:timers/promises";
import { type Environment, environmentPath } from "../domain/environment.ts";
import { type ChangeOutcome, RecordUnreadable, StoreUnavailable, TokenTaken } from "../domain/errors.ts";
import { randomBase62 } from "../domain/token.ts";
import type { StoreClient } from "./client.ts";
import { foreignTokenKey, groupKey, groupKeyOf, prefixFor, REQUEST_TTL_MS } from "./keys.ts";
import { StrayEntries } from "./stray-entries.ts";

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

/**
 * For how long an entry has to find nothing before it is taken for left behind, in milliseconds: an import that claimed a
 * token has come to its end then.
 */
const STRAY_MS = 2 * CLAIM_MS;

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
  readonly #strays: StrayEntries;

  /** @param strayMs for how long an entry has to find nothing before it is removed, in milliseconds. Default: 2 minutes */
  constructor(client: StoreClient, { strayMs = STRAY_MS }: { readonly strayMs?: number } = {}) {
    this.#client = client;
    this.#strays = new StrayEntries(strayMs);
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
    const entry = await this.#entry(environment, digest);
    if (entry === undefined) return [];
    const key = groupKeyOf(environment, entry.id);
    const answer = await this.#client.run("resolve", "ugResolveAt", [key, entry.id, digest]);
    if (answer.length === 0) this.#foundNothing(environment, digest, entry);
    return answer;
  }

  /**
   * Claims a token for a group, which may be given it under the claim for `CLAIM_MS`.
   *
   * @param ended the nonce of a claim of the same group that has been ended
   * @returns the nonce
   * @throws TokenTaken when another group has it; StoreUnavailable
   */
  async claim(environment: Environment, digest: string, id: string, ended?: string): Promise<string> {
    return (await this.#claim(environment, digest, id, ended)).nonce;
  }

  /**
   * Makes the entry of a token that a group had a moment ago, if it is lost.
   *
   * @throws as `claim`
   */
  async mend(environment: Environment, digest: string, id: string): Promise<void> {
    const { isNew } = await this.#claim(environment, digest, id);
    // The group may have lost the token meanwhile, and whoever took it has removed its entry, or left a hint for retries.
    if (isNew) this.releaseLater(environment, digest, { id, keepMs: REQUEST_TTL_MS });
  }

  /**
   * Forgets a token that a group has no more; it does nothing when a group has it after all. While the token is on its
   * grace a hint is left.
   */
  async release(environment: Environment, digest: string, options: ReleaseOptions = {}): Promise<void> {
    const entry = await this.#entry(environment, digest);
    if (entry === undefined || entry.id !== (options.id ?? entry.id)) return;
    await this.#forget(environment, digest, entry, options.keepMs ?? 0);
  }

  /** As `release`, without being waited for: what fails leaves an entry behind that finds nothing. */
  releaseLater(environment: Environment, digest: string, options?: ReleaseOptions): void {
    this.release(environment, digest, options).catch(() => {});
  }

  async #claim(environment: Environment, digest: string, id: string, ended?: string) {
    const key = foreignTokenKey(prefixFor(environment, digest), digest);
    const made = randomBase62(NONCE_LENGTH) + id;
    let replaced = "";
    let seen = "";
    for (let tries = 0; tries < TRIES; tries++) {
      const [state, , text] = await this.#client.prepare("claim-token", "ugClaimToken", [key, made, replaced]);
      const entry = entryOf(text);
      if (entry.id === id && entry.nonce !== NO_CLAIM && entry.nonce !== ended) {
        return { nonce: entry.nonce, isNew: state === "made" };
      }
      if (entry.id !== id) {
        if (entry.text !== seen) {
          // It may be in use. Were it ended at once, many that want one token would end each other's claims for long.
          seen = entry.text;
          await pause(PATIENCE_MS * (1 + Math.random()));
          continue;
        }
        const [outcome] = await this.#end(environment, digest, entry, false);
        if (outcome !== "made") throw new TokenTaken();
      }
      replaced = entry.text;
    }
    throw new StoreUnavailable(new Error("claim-token: too many claim the same token"), "not_made");
  }

  /** Removes an entry through which no group has the token, or leaves a hint. */
  async #forget(environment: Environment, digest: string, entry: Entry, keepMs: number): Promise<void> {
    // A hint ends by itself; whoever left it knows best for how long somebody may need it.
    if (entry.nonce === NO_CLAIM) return;
    const [state, , graceMs] = await this.#end(environment, digest, entry, true);
    if (state !== "made") return;
    const leftMs = Math.max(Number(graceMs), keepMs);
    const key = foreignTokenKey(prefixFor(environment, digest), digest);
    const hintMs = leftMs > 0 ? leftMs + HINT_SLACK_MS : 0;
    const args = [key, entry.text, NO_CLAIM + entry.id, String(hintMs)] as const;
    await this.#client.change("forget-token", "ugForgetToken", args);
  }

  /**
   * What made the entry, or was to remove it, may have been killed. When it has been so for long, it is removed; a hint is
   * left, for the token may have been rotated under a request id.
   */
  #foundNothing(environment: Environment, digest: string, entry: Entry): void {
    const name = `${environmentPath(environment)} ${digest} ${entry.text}`;
    if (entry.nonce === NO_CLAIM || !this.#strays.isOld(name)) return;
    this.#forget(environment, digest, entry, REQUEST_TTL_MS).catch(() => {});
  }

  async #entry(environment: Environment, digest: string, outcome?: ChangeOutcome): Promise<Entry | undefined> {
    const key = foreignTokenKey(prefixFor(environment, digest), digest);
    const text = await this.#client.run("foreign-token", "get", [key], outcome);
    return text === null ? undefined : entryOf(text);
  }

  #end(environment: Environment, digest: string, { id, nonce }: Entry, isGraceNone: boolean): Promise<string[]> {
    const prefix = prefixFor(environment, id);
    const args = [groupKey(prefix, id), prefix, digest, nonce, String(REFUSED_MS), isGraceNone ? "1" : ""] as const;
    return this.#client.prepare("end-claim", "ugEndClaim", args);
  }
}

/** How a token is released. */
interface ReleaseOptions {
  /** How long to leave a hint at the least, in milliseconds. Default: 0 */
  readonly keepMs?: number;
  /** Only when it may be of this group. Default: whichever it may be of. */
  readonly id?: string;
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
