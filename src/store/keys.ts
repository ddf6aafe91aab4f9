import { type Environment, environmentPath, parseEnvironmentPath } from "../domain/environment.ts";

/**
 * What begins every key of an environment. The braces are a Redis Cluster hash tag: all of them share a slot, so that one
 * script may change any.
 */
export function environmentPrefix(number: number): string {
  return `ug:{${number}}:`;
}

/**
 * Hash: the record of an environment, which every change of it checks: `state` (`active`, `deleting` or `deleted`), `path`
 * (`environmentPath`), `create_time`, `delete_time`; `version`, that of the last change; `groups`, how many groups were ever
 * created. It is never removed.
 */
export function environmentKey(number: number): string {
  return `${environmentPrefix(number)}environment`;
}

/** Hash: a user group, by the fields of `FIELD` in `group-record.ts`. */
export function groupKey(number: number, providedId: string): string {
  return `ug:{${number}}:group:${providedId}`;
}

/** Sorted set, all scores 0: the ids of an environment's groups. */
export function idsKey(number: number): string {
  return `${environmentPrefix(number)}ids`;
}

/**
 * Hash: the digests of user group tokens that begin like this one, each without its first two characters, to the ids of the
 * groups. 256 of these hashes keep each of them small.
 */
export function tokensKey(number: number, digest: string): string {
  return `${environmentPrefix(number)}tokens:${digest.slice(0, 2)}`;
}

/** Hash that expires: what a rotation under a request id made, by the digest of that id. */
export function requestKey(number: number, digest: string): string {
  return `${environmentPrefix(number)}request:${digest}`;
}

/** Hash that expires, by the team id of the group: revoked viewer sessions, by the digests of their viewers' ids. */
export function endedSessionsKey(number: number, teamId: number): string {
  return `${environmentPrefix(number)}sessions:${teamId}`;
}

/** Hash: an API token's secret with a digest, by the fields of `API_TOKEN_FIELD`. */
export function apiTokenKey(number: number, digest: string): string {
  return `${environmentPrefix(number)}api-token:${digest}`;
}

/** Sorted set, all scores 0: the secrets of an environment's API tokens as `ID DIGEST`. */
export function apiTokensKey(number: number): string {
  return `${environmentPrefix(number)}api-tokens`;
}

/** Hash: the keys that sign an environment's viewer sessions, by their ids; and `version`, which every change of them raises. */
export function signingKeysKey(number: number): string {
  return `${environmentPrefix(number)}signing-keys`;
}

/**
 * Stream that expires: the audit events of a day, by the number of the day since 1970. Updates of groups have a stream of
 * their own, because they alone are removed for their number.
 */
export function eventsKey(number: number, stream: EventStream, day: number): string {
  return `${environmentPrefix(number)}${stream}:${day}`;
}

/** The streams of a day. */
export type EventStream = "events" | "updates";

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
