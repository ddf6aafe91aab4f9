import { type Environment, partitionOf } from "../domain/environment.ts";
import { TokenNotFound, TokenTaken } from "../domain/errors.ts";
import { userGroupTokenShape } from "../domain/token.ts";
import { foreignTokenKey, groupKeyOf, partitionPrefix } from "./keys.ts";
import type { StoreClient } from "./redis/client.ts";

/** For how long after its entry was made a group may begin to be given a token, in milliseconds. */
export const CLAIM_MS = 60 * 1000;

/**
 * From which age on nothing gives a group a token under its entry any more, in milliseconds: longer than `CLAIM_MS` and the
 * longest time that a call to Redis may take together, and some minutes by which the clocks of nodes may jump.
 */
const OLD_MS = 5 * 60 * 1000;

/** How much longer an entry is kept than a grace, in milliseconds: two nodes need not agree on the time. */
const SLACK_MS = 60 * 1000;

/** For how long the entry of a token that is replaced may still be needed, in milliseconds. @param graceMs of the token */
export function keptFor(graceMs: number): number {
  return graceMs > 0 ? graceMs + SLACK_MS : 0;
}

/**
 * The partition by whose indexes a token is found: the one that a token of ours names, and the one that the digest of any
 * other token leads to.
 *
 * @throws TokenNotFound when no group can have the token
 */
export function tokenPartition(environment: Environment, token: string, digest: string): number {
  const shape = userGroupTokenShape(token);
  if (shape.kind === "malformed") throw new TokenNotFound(true);
  const isNamed = shape.kind === "ours" && shape.partition < environment.partitions;
  return isNamed ? shape.partition : partitionOf(environment, digest);
}

/**
 * The entries of tokens that do not name the partition of their group, for they are of another system, or of an environment
 * of another number of partitions.
 *
 * The record of a group decides who has a token; an entry only says where to look. Yet no token may be of two groups, and
 * entry and group are in two slots. So the entry is made first, for one group at a time, and the group is given the token
 * soon after, or never. Another group may take over what is too old to be used any more, if the first one does not have the
 * token then. An import that is cut off between the two blocks its token for `OLD_MS`, and nobody else's.
 */
export class ForeignTokens {
  readonly #client: StoreClient;

  constructor(client: StoreClient) {
    this.#client = client;
  }

  /**
   * Makes the entry of a token for a group, which may be given the token for `CLAIM_MS` from before this call.
   *
   * @param isGiven whether the group is about to be given it; else it has it, and its entry may be lost
   * @returns the entry, as `FIELD.entry` has it
   * @throws TokenTaken when another group has it, or may be about to be given it; StoreUnavailable
   */
  async claim(
    environment: Environment,
    { text, digest }: { readonly text: string; readonly digest: string },
    id: string,
    isGiven: boolean,
  ): Promise<string> {
    const partition = tokenPartition(environment, text, digest);
    const prefix = partitionPrefix(environment, partition);
    const key = foreignTokenKey(prefix, digest);
    let replaced = "";
    while (true) {
      const args = [key, prefix, digest, id, replaced, isGiven ? "1" : ""] as const;
      const [state, now, entry = ""] = await this.#client.prepare("claim-token", "ugClaimToken", args);
      const [time = "", holder] = divided(entry);
      if (state === "made") return `${partition}:${time}`;
      // It was old when it was to be replaced: somebody was quicker.
      if (state === "taken" || replaced !== "" || Number(now) - Number(time) <= OLD_MS) throw new TokenTaken();
      // Looked at after it was found too old to be used, so that nothing gives the group the token behind this.
      const at = [groupKeyOf(environment, holder), holder, digest] as const;
      if ((await this.#client.run("claim-token", "ugResolveAt", at, "not_made")).length > 0) throw new TokenTaken();
      replaced = entry;
    }
  }

  /**
   * Forgets the entry of a token that a group has no more, without being waited for: what fails leaves an entry that finds
   * nothing, and that another group may take over. One that was made anew since is left.
   *
   * @param ended as `FIELD.endedEntry` has it; empty: there is none
   * @param keepMs for how long it may still be needed, in milliseconds
   */
  forgetLater(environment: Environment, ended: string, id: string, keepMs = 0): void {
    if (ended === "") return;
    const [partition, rest] = divided(ended);
    const [time, digest] = divided(rest);
    const key = foreignTokenKey(partitionPrefix(environment, Number(partition)), digest);
    this.#client.change("forget-token", "ugForgetToken", [key, `${time}:${id}`, String(keepMs)]).catch(() => {});
  }
}

/** What is before and behind the first colon. */
function divided(text: string): [string, string] {
  const at = text.indexOf(":");
  return [text.slice(0, Math.max(at, 0)), text.slice(at + 1)];
}
