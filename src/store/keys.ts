import { type Environment, environmentPath, parseEnvironmentPath } from "../domain/environment.ts";

/*
 * The keys of an environment have one hash tag in braces. So these keys share a slot of a Redis Cluster, and one script
 * can change all these keys. Times are milliseconds since 1970 by Redis' clock.
 */

export const environmentPrefix = (number: number) => `ug:{${number}}:`;

/**
 * Hash that the service never deletes: the record of the environment. Fields: `state` (`active`, `deleting` or `deleted`), `path`
 * (`environmentPath`), `create_time`, `delete_time`, and `version` of the last change. `trimmed`: the first update after the last
 * removed update. `groups`: the number of groups ever created. `issue_time`: after a revocation with `issued`, API tokens issue no
 * others before this time.
 */
export const environmentKey = (number: number) => `ug:{${number}}:environment`;

/** Hash: a user group. Fields: `FIELD` in `groups/group-record.ts`. */
export const groupKey = (number: number, providedId: string) => `ug:{${number}}:group:${providedId}`;

/** Sorted set, all scores 0: the ids of the groups. */
export const idsKey = (number: number) => `ug:{${number}}:ids`;

/** 256 hashes: the digests of user group tokens without their first two characters, and the ids of their groups. */
export const tokensKey = (number: number, digest: string) => `ug:{${number}}:tokens:${digest.slice(0, 2)}`;

/** Hash that expires: the result of a rotation. @param digest of its request id */
export const requestKey = (number: number, digest: string) => `ug:{${number}}:request:${digest}`;

/** Hash that expires: the revoked viewer sessions of a group, by the digests of viewer ids. */
export const revokedSessionsKey = (number: number, teamId: number) => `ug:{${number}}:sessions:${teamId}`;

/**
 * Hash that expires with the API token, if that expires. Fields: `display_name`, `role`, `creator`, `create_time`, `expire_time`,
 * `last_use_time`; `digest` of its current secret, `token_create_time`, and `rotator` if a rotation created the secret; and
 * `previous`, the digests of the secrets with a grace period, the latest first, each with the end of its grace period. `noticed`: the
 * expiry time of the last event on the expiry, a colon, and its remaining days. `issuers`: the ids of the API tokens that created or
 * rotated it, and of the issuers that they had then.
 */
export const apiTokenKey = (number: number, id: string) => `ug:{${number}}:api-token:${id}`;

/** Hash: the digests of the secrets of API tokens, and their ids. */
export const apiTokensKey = (number: number) => `ug:{${number}}:api-tokens`;

/** Hash: the keys that sign viewer sessions, by their ids; and `version`, which increases with each change. */
export const signingKeysKey = (number: number) => `ug:{${number}}:signing-keys`;

/** Streams of a day. Updates of groups have their own stream, because only they are trimmed. */
export type EventStream = "events" | "updates";

/** Stream that expires: the audit events of a day. @param day days since 1970 */
export const eventsKey = (number: number, stream: EventStream, day: number) => `ug:{${number}}:${stream}:${day}`;

/** Sorted set, all scores 0: the ids of the webhooks. */
export const webhooksKey = (number: number) => `ug:{${number}}:webhooks`;

/** Hash: a webhook. Fields: `FIELD` in `webhooks/webhook-record.ts`. */
export const webhookKey = (number: number, id: string) => `ug:{${number}}:webhook:${id}`;

/** Hash: the times of the last checks of the webhooks: `check_time` and `test_time`. */
export const webhookTimesKey = (number: number) => `ug:{${number}}:webhook-times`;

/** Stream: the last attempts to deliver events to a webhook. */
export const deliveriesKey = (number: number, id: string) => `ug:{${number}}:deliveries:${id}`;

/** Arguments of scripts that select keys. */
export interface KeyArgs {
  readonly id: string;
  readonly digest: string;
  readonly currentDigest: string;
  readonly requestDigest: string;
}

/** The keys of the scripts that change an environment, by their names. */
export const KEYS = {
  environment: environmentKey,
  ids: idsKey,
  group: (number: number, { id }: KeyArgs) => groupKey(number, id),
  /** The group with the id. Without an id: the part of the index that contains the token. */
  target: (number: number, { id, currentDigest }: KeyArgs) =>
    id === "" ? tokensKey(number, currentDigest) : groupKey(number, id),
  /** A script without a new token reads no index. */
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

/**
 * Sorted set, all scores 0: the environments that have or had webhooks, each as an `environmentMember`. Workers read it to find
 * undelivered events.
 */
export const WEBHOOK_ENVIRONMENTS_KEY = "ug:webhook-environments";

/** Sorted set, all scores 0: the environments, each as an `environmentMember`. A hint: their records decide. */
export const ENVIRONMENTS_KEY = "ug:environments";

/** The entry of an environment in the list of environments. */
export function environmentMember(path: string, number: number | ""): string {
  return `${path} ${number}`;
}

/** Parses a result of `environmentMember`. */
export function fromMember(member: string): { readonly path: string; readonly number: number } {
  const [path = "", number] = member.split(" ");
  return { path, number: Number(number) };
}

/**
 * Channel: digests of revoked or changed API tokens, deleted environments, and environments with changed signing keys. The function
 * `publish` of scripts contains the same name. Plain PUBLISH reaches all nodes of a Cluster. With sharded pub/sub, workers would have to
 * follow the slot of the channel.
 */
export const REVOKED_CHANNEL = "ug:revoked";

/** Events of an environment in `REVOKED_CHANNEL`. */
type EnvironmentNews = "deleted" | "signing-keys";

/** Formats a message on an environment. It contains colons, which digests do not. */
export function newsMessage(news: EnvironmentNews, environment: Environment): string {
  return `${news}:${environment.number}:${environmentPath(environment)}`;
}

/** Parses a message on an environment. @returns undefined for other messages */
export function newsOf(
  message: string,
): { readonly news: EnvironmentNews; readonly environment: Environment } | undefined {
  const [news = "", number, path = ""] = message.split(":");
  const name = parseEnvironmentPath(path);
  return name && { news: news as EnvironmentNews, environment: { ...name, number: Number(number) } };
}

/** String: the number of this layout, and the identity of this Redis (`identity.ts`). */
export const FORMAT_KEY = "ug:format";

/** Hash: the keys of `TOKEN_KEYS` that encrypted tokens, by their ids: the check value, and the time of the last use. */
export const TOKEN_KEYS_KEY = "ug:token-keys";
