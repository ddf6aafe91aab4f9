import { type Environment, environmentPath, parseEnvironmentPath } from "../domain/environment.ts";

/*
 * All keys of an environment have the same hash tag in braces. In a Redis Cluster, all these keys are therefore in the
 * same slot, and one script can change all of them. Times are milliseconds since 1970 by Redis' clock.
 */

export const environmentPrefix = (number: number) => `ug:{${number}}:`;

/**
 * Hash, never deleted: the record of an environment. Fields: `create_time`, `delete_time`, and
 * - `state`: `active`, `deleting` or `deleted`
 * - `path`: the result of `environmentPath`
 * - `version`: the version of the last change, which is also the id of the last audit event
 * - `trimmed`: the id of the oldest update of a group that remained when the daily limit last removed updates. Missing
 *   if the limit has removed no updates
 * - `groups`: the number of groups ever created
 * - `issue_time`: until this time, API tokens cannot create or rotate API tokens. Set when an API token is revoked with
 *   the option `issued`.
 */
export const environmentKey = (number: number) => `ug:{${number}}:environment`;

/** Hash: a user group. Fields: `FIELD` in `groups/group-record.ts`. */
export const groupKey = (number: number, providedId: string) => `ug:{${number}}:group:${providedId}`;

/** Sorted set, all scores 0: the ids of the groups. */
export const idsKey = (number: number) => `ug:{${number}}:ids`;

/**
 * 256 hashes. The first two characters of a token digest select the hash. The hash maps the other characters of the
 * digest to the id of the group.
 */
export const tokensKey = (number: number, digest: string) => `ug:{${number}}:tokens:${digest.slice(0, 2)}`;

/** Hash that expires: the result of a rotation. @param digest the digest of the request id */
const requestKey = (number: number, digest: string) => `ug:{${number}}:request:${digest}`;

/** Hash that expires: the revocations for single viewers of a group. Each field is the digest of a viewer id. */
export const revokedSessionsKey = (number: number, teamId: number) => `ug:{${number}}:sessions:${teamId}`;

/**
 * Hash that expires with the API token. Fields: `display_name`, `role`, `creator`, `create_time`, `expire_time`,
 * `last_use_time`, and
 * - `digest` and `token_create_time`: the digest and the creation time of the current secret
 * - `rotator`: the id of the caller whose rotation created the current secret. Missing before the first rotation
 * - `previous`: the digests of the former secrets, each with the end of its grace period. The latest former secret is
 *   the first
 * - `noticed`: `TIME:DAYS`. The last `api_token.expiring` event reported that the API token expires at TIME, in at most
 *   DAYS days
 * - `issuers`: the ids of the API tokens that created or rotated the API token, directly or through other API tokens.
 */
export const apiTokenKey = (number: number, id: string) => `ug:{${number}}:api-token:${id}`;

/** Hash: maps the digest of each secret to the id of its API token. */
export const apiTokensKey = (number: number) => `ug:{${number}}:api-tokens`;

/** Hash: the signing keys by their ids, and a field `version` that increases with each change. */
export const signingKeysKey = (number: number) => `ug:{${number}}:signing-keys`;

/** The streams of a day. `updates` contains updates of groups, and is trimmed. `events` contains all other events. */
export type EventStream = "events" | "updates";

/** Stream that expires: the audit events of a day. @param day in days since 1970 */
export const eventsKey = (number: number, stream: EventStream, day: number) => `ug:{${number}}:${stream}:${day}`;

/** Sorted set, all scores 0: the ids of the webhooks. */
export const webhooksKey = (number: number) => `ug:{${number}}:webhooks`;

/** Hash: a webhook. Fields: see `webhooks/webhook-record.ts`. */
export const webhookKey = (number: number, id: string) => `ug:{${number}}:webhook:${id}`;

/** Hash: the times of the last check (`check_time`) and of the last test (`test_time`) of the webhooks. */
export const webhookTimesKey = (number: number) => `ug:{${number}}:webhook-times`;

/** Stream: the last attempts to deliver events to a webhook. */
export const deliveriesKey = (number: number, id: string) => `ug:{${number}}:deliveries:${id}`;

export interface KeyArgs {
  readonly id: string;
  readonly digest: string;
  readonly currentDigest: string;
  readonly requestDigest: string;
}

export const KEYS = {
  environment: environmentKey,
  ids: idsKey,
  group: (number: number, { id }: KeyArgs) => groupKey(number, id),
  /**
   * If the id is not empty, this is the key of the group with the id. Otherwise, this is the key of the index hash that
   * contains the current token.
   */
  target: (number: number, { id, currentDigest }: KeyArgs) =>
    id === "" ? tokensKey(number, currentDigest) : groupKey(number, id),
  /**
   * The key of the index hash for the new token. If the script creates no token, this is the key of an arbitrary index
   * hash.
   */
  tokens: (number: number, { digest }: KeyArgs) => tokensKey(number, digest || "00"),
  request: (number: number, { requestDigest }: KeyArgs) => requestKey(number, requestDigest),
  apiTokens: apiTokensKey,
  apiToken: (number: number, { id }: KeyArgs) => apiTokenKey(number, id),
  signingKeys: signingKeysKey,
  webhooks: webhooksKey,
  webhook: (number: number, { id }: KeyArgs) => webhookKey(number, id),
  times: webhookTimesKey,
  deliveries: (number: number, { id }: KeyArgs) => deliveriesKey(number, id),
} satisfies { readonly [name: string]: (number: number, args: KeyArgs) => string };

export type KeyName = keyof typeof KEYS;

/** Sorted set, all scores 0: the environments that have or had webhooks, each as an `environmentMember`. */
export const WEBHOOK_ENVIRONMENTS_KEY = "ug:webhook-environments";

/**
 * Sorted set, all scores 0: the environments, each as an `environmentMember`. An entry may be outdated, so only the
 * record shows whether the environment exists.
 */
export const ENVIRONMENTS_KEY = "ug:environments";

export function environmentMember(path: string, number: number | ""): string {
  return `${path} ${number}`;
}

export function fromMember(member: string): { readonly path: string; readonly number: number } {
  const [path = "", number] = member.split(" ");
  return { path, number: Number(number) };
}

/**
 * Channel: a message reports a deleted environment, an environment with changed signing keys, or the digest of a
 * revoked or changed API token. `publish` in `scripts/parts/environment.lua` repeats the name of the channel. PUBLISH
 * reaches all nodes of a Cluster. With sharded pub/sub, workers would have to find the node with the slot of the
 * channel, and subscribe there.
 */
export const REVOKED_CHANNEL = "ug:revoked";

type EnvironmentNews = "deleted" | "signing-keys";

/** Formats a message about an environment. The message contains colons, unlike a digest. */
export function newsMessage(news: EnvironmentNews, environment: Environment): string {
  return `${news}:${environment.number}:${environmentPath(environment)}`;
}

/** Parses a message about an environment. Returns undefined for other messages. */
export function newsOf(
  message: string,
): { readonly news: EnvironmentNews; readonly environment: Environment } | undefined {
  const [news = "", number, path = ""] = message.split(":");
  const name = parseEnvironmentPath(path);
  return name && { news: news as EnvironmentNews, environment: { ...name, number: Number(number) } };
}

/** String: the number of the layout, and the identity of the data (`identity.ts`). */
export const FORMAT_KEY = "ug:format";

/**
 * Hash: the keys of `TOKEN_KEYS` that have encrypted data. Maps the id of each key to its check value and the time of
 * its last use.
 */
export const TOKEN_KEYS_KEY = "ug:token-keys";
