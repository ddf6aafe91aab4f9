import { type Environment, environmentPath, parseEnvironmentPath } from "../domain/environment.ts";

/*
 * The keys of an environment. All of them share a slot of a Redis Cluster, by the hash tag in braces, so one script can change any
 * of them. Times are milliseconds since 1970 by Redis' clock, unless they are called versions.
 */

export const environmentPrefix = (number: number) => `ug:{${number}}:`;

/**
 * Hash, never removed: the record of the environment: `state` (`active`, `deleting` or `deleted`), `path` (`environmentPath`),
 * `create_time`, `delete_time`, `version` (of the last change) and `groups` (the number of groups that were ever created).
 */
export const environmentKey = (number: number) => `ug:{${number}}:environment`;

/** Hash: a user group, by the fields of `FIELD` in `group-record.ts`. */
export const groupKey = (number: number, providedId: string) => `ug:{${number}}:group:${providedId}`;

/** Sorted set, all scores 0: the ids of the groups. */
export const idsKey = (number: number) => `ug:{${number}}:ids`;

/** Hash: user group tokens' digests without their first two characters, which choose one of 256 hashes, to the ids of groups. */
export const tokensKey = (number: number, digest: string) => `ug:{${number}}:tokens:${digest.slice(0, 2)}`;

/** Hash that expires: the result of a rotation under a request id, by the digest of that id. */
export const requestKey = (number: number, digest: string) => `ug:{${number}}:request:${digest}`;

/** Hash that expires, by the team id of a group: its revoked viewer sessions, by the digests of their viewers' ids. */
export const endedSessionsKey = (number: number, teamId: number) => `ug:{${number}}:sessions:${teamId}`;

/**
 * Hash that may expire: a secret of an API token: `id`, `display_name`, `role`, `creator`, `create_time`, `token_create_time`,
 * `expire_time`, `rotator` if a rotation made it, `is_replaced` if a rotation replaced it, and `last_use_time`.
 */
export const apiTokenKey = (number: number, digest: string) => `ug:{${number}}:api-token:${digest}`;

/** Sorted set, all scores 0: the secrets of the API tokens as `ID DIGEST CREATOR ROTATOR`. */
export const apiTokensKey = (number: number) => `ug:{${number}}:api-tokens`;

/** Hash: the keys that sign viewer sessions, by their ids; and `version`, which each change of them raises. */
export const signingKeysKey = (number: number) => `ug:{${number}}:signing-keys`;

/** The streams of a day. Updates of groups have one of their own, because they alone are trimmed. */
export type EventStream = "events" | "updates";

/** Stream that expires: the audit events of a day. @param day days since 1970 */
export const eventsKey = (number: number, stream: EventStream, day: number) => `ug:{${number}}:${stream}:${day}`;

/** Sorted set, all scores 0: the environments, each as an `environmentMember`. A hint: their records decide. */
export const ENVIRONMENTS_KEY = "ug:environments";

/** The entry of an environment in the list of environments. */
export function environmentMember(path: string, number: number | ""): string {
  return `${path} ${number}`;
}

/** Parses what `environmentMember` formats. */
export function fromMember(member: string): { readonly path: string; readonly number: number } {
  const [path = "", number] = member.split(" ");
  return { path, number: Number(number) };
}

/**
 * Channel: the digests of API tokens that are revoked or changed, the environments that are deleted, and those whose signing
 * keys have changed. By plain PUBLISH, which every node of a Cluster passes on to all others: with sharded pub/sub, workers
 * would have to follow the slot of the channel from node to node.
 */
export const REVOKED_CHANNEL = "ug:revoked";

/** Events of an environment that all workers receive. */
type EnvironmentNews = "deleted" | "signing-keys";

/** The message by which every worker learns what becomes of an environment. No digest has a colon. */
export function newsMessage(news: EnvironmentNews, environment: Environment): string {
  return `${news}:${environment.number}:${environmentPath(environment)}`;
}

/** Parses a message about an environment. @returns undefined for any other message */
export function newsOf(
  message: string,
): { readonly news: EnvironmentNews; readonly environment: Environment } | undefined {
  const [news = "", number, path = ""] = message.split(":");
  const name = parseEnvironmentPath(path);
  return name && { news: news as EnvironmentNews, environment: { ...name, number: Number(number) } };
}

/** String: the number of the layout that all of this has. */
export const FORMAT_KEY = "ug:format";

/** Hash: the id of each key of `TOKEN_KEYS` that tokens were encrypted under, to what shows which key it was. */
export const TOKEN_KEYS_KEY = "ug:token-keys";

/** Hash: the id of each of these keys to when a process last noted that it encrypts under it. In the same slot. */
export const TOKEN_KEY_USES_KEY = `ug:{${TOKEN_KEYS_KEY}}:uses`;
