import { type Environment, type EnvironmentName, environmentPath, partitionOf } from "../domain/environment.ts";
import { PAIRS } from "../domain/token.ts";

/**
 * What every key of one partition begins with. The braces are a Redis Cluster
 * hash tag: all keys of a partition share a slot, so a script may touch any.
 */
export function partitionPrefix(environment: EnvironmentName, partition: number): string {
  return `ug:{${environmentPath(environment)}/${PAIRS[partition]}}:`;
}

/** The numbers of the partitions of an environment. */
export function partitionsOf({ partitions }: Pick<Environment, "partitions">): number[] {
  return Array.from({ length: partitions }, (_, partition) => partition);
}

/** What the keys that scripts build are called behind the prefix. After a colon comes an id or a digest. */
export const KEY = {
  /** Hash: one user group, by the fields of `fields.ts`. */
  group: "group:",
  /**
   * Hash: the first 14 characters of each current token's digest to the id of its group. A hint: the group's record
   * decides, and names the digest.
   */
  tokens: "tokens",
  /** Sorted set, all scores 0: the ids of the partition's groups, for lists in their order. */
  ids: "ids",
  /** String: how many team ids the partition has handed out. */
  teamCount: "team-count",
  /**
   * String that expires, by the first team id of the partition, which tells the environment by its number: no group is created
   * in it. The environment is deleted, and workers may not have heard of it yet; or it is about to be.
   */
  closed: "closed:",
  /** String that expires: the id of the group whose token with this digest is in its grace. A hint, as `tokens`. */
  grace: "grace:",
  /** Hash that expires: which token a rotation made, for retries with its request id, by the digest of that id. */
  request: "request:",
  /** String that expires: the parameters that a request id was first used with, by the digest of that id. */
  requestParameters: "request-claim:",
  /**
   * String: the entry of the foreign token with this digest, which is a time, a colon and the id of the group that may have
   * the token. In the partition that the token leads to (`tokenPartition`), which may be another than that of the group. A
   * hint, as `tokens`.
   */
  foreign: "foreign:",
  /**
   * Hash that expires, by the team id of the group, which no other group gets: the digest of a viewer's id to the oldest
   * generation of their sessions that is still valid, a colon and when those before it were ended.
   */
  endedSessions: "ended-sessions:",
  /** Stream: the changes of the partition's groups but updates, by the fields of `EVENT_FIELD`. It expires with its last event. */
  audit: "audit",
  /** Stream: the updates of the partition's groups likewise, apart because they alone may be dropped for their number. */
  updatesAudit: "audit-updates",
} as const;

/** Where a user group is: its partition, what the keys of that begin with, and its own key. */
export function locateGroup(environment: Environment, providedId: string) {
  const partition = partitionOf(environment, providedId);
  const prefix = partitionPrefix(environment, partition);
  return { partition, prefix, key: `${prefix}${KEY.group}${providedId}` };
}

/** Hash: the record of an environment. */
export function environmentKey(environment: EnvironmentName): string {
  return `ug:env:${environmentPath(environment)}`;
}

/**
 * What every further key of an environment begins with. The hash tag is the whole name of the environment's own key, so
 * that all of them share its slot, and a script may touch any.
 */
function environmentPrefix(environment: EnvironmentName): string {
  return `ug:{${environmentKey(environment)}}:`;
}

/** Sorted set, all scores 0: an environment's API tokens as `ID DIGEST`. A hint: their records decide. */
export function apiTokensKey(environment: EnvironmentName): string {
  return `${environmentPrefix(environment)}api-tokens`;
}

/** Stream: the changes of an environment and of its API tokens, as `KEY.audit` has those of groups. */
export function environmentAuditKey(environment: EnvironmentName): string {
  return `${environmentPrefix(environment)}audit`;
}

/**
 * Hash: the keys that sign an environment's viewer sessions, by their ids; and in `version` a number that every change of
 * them raises.
 */
export function signingKeysKey(environment: EnvironmentName): string {
  return `${environmentPrefix(environment)}signing-keys`;
}

/**
 * Hash: the API token with a digest, by the fields of `API_TOKEN_FIELD`. It is all that authentication reads, so it has a
 * slot of its own.
 */
export function apiTokenKey(digest: string): string {
  return `ug:api-token:${digest}`;
}

/** Sorted set, all scores 0: the environments as `ENV/TAG`. A hint: the environment's hash decides. */
export const ENVIRONMENTS_KEY = "ug:environments";

/**
 * Channel: the digests of API tokens that are revoked, and the environments whose signing keys have changed. By plain
 * PUBLISH, which every node of a Cluster passes on to all others: with sharded pub/sub, workers would have to follow the
 * slot of the channel from node to node.
 */
export const REVOKED_CHANNEL = "ug:revoked";

const SIGNING_KEYS = "signing-keys:";

/** What tells that the signing keys of an environment have changed, on the same channel. No digest has a colon. */
export function signingKeysMessage(environment: EnvironmentName): string {
  return SIGNING_KEYS + environmentPath(environment);
}

/** The path of the environment whose signing keys a message tells to have changed; undefined when it tells something else. */
export function signingKeysPath(message: string): string | undefined {
  return message.startsWith(SIGNING_KEYS) ? message.slice(SIGNING_KEYS.length) : undefined;
}

/** String: the environment, as `ENV/TAG`, that has a number. Never removed, so that no number is given to another. */
export function environmentNumberKey(number: number): string {
  return `ug:env-number:${number}`;
}

/** String: the number of the layout that all of this has. */
export const FORMAT_KEY = "ug:format";

/** Hash: the id of each key of `TOKEN_KEYS` that tokens were encrypted under, to what shows which key it was. */
export const TOKEN_KEYS_KEY = "ug:token-keys";

/** Hash: the id of each of these keys to when a process last noted that it encrypts under it. In the same slot. */
export const TOKEN_KEY_USES_KEY = `ug:{${TOKEN_KEYS_KEY}}:uses`;
