import type { ChangeBy } from "../domain/audit.ts";
import type { Environment } from "../domain/environment.ts";
import {
  EnvironmentFull,
  EtagMismatch,
  RecordUnreadable,
  RequestIdReused,
  TokenNotFound,
  UserGroupNotFound,
} from "../domain/errors.ts";
import { partitionOf } from "../domain/partition.ts";
import type { UserGroupStore } from "../domain/store.ts";
import { teamIdsOf } from "../domain/team-id.ts";
import { newUserGroupToken, userGroupTokenShape } from "../domain/token.ts";
import type { NewUserGroup, Rotation, UserGroup, UserGroupChange, Viewer } from "../domain/user-group.ts";
import type { Audit } from "./audit.ts";
import type { StoreClient } from "./client.ts";
import { digest, type TokenCipher, tokenDigest } from "./encryption.ts";
import { FIELD, PIECES, piecesOf } from "./fields.ts";
import { groupKey, idsKey, partitionPrefix, requestClaimKey, teamCountKey, tokensKey } from "./keys.ts";
import { etagOf, groupFromRecord, recordFromAnswer, tokenFields, updateTimeOf, viewerFromRecord } from "./record.ts";

/** How long what a rotation made is kept for retries, in milliseconds. */
const REQUEST_TTL_MS = 24 * 60 * 60 * 1000;

/** What the store is made of. */
export interface RedisUserGroupsParts {
  readonly client: StoreClient;
  readonly cipher: TokenCipher;
  readonly audit: Audit;
}

/** User groups in Redis. Which keys hold what: `keys.ts` and `fields.ts`. */
export class RedisUserGroups implements UserGroupStore {
  readonly #client: StoreClient;
  readonly #cipher: TokenCipher;
  readonly #audit: Audit;

  constructor(parts: RedisUserGroupsParts) {
    this.#client = parts.client;
    this.#cipher = parts.cipher;
    this.#audit = parts.audit;
  }

  async get(environment: Environment, providedId: string): Promise<UserGroup> {
    const key = groupKey(partitionPrefix(environment, partitionOf(environment, providedId)), providedId);
    const record = await this.#client.run("get", key, (redis) => redis.hgetall(key));
    if (Object.keys(record).length === 0) throw new UserGroupNotFound();
    return groupFromRecord(record, environment, this.#cipher, providedId);
  }

  getOrCreate(
    environment: Environment,
    group: NewUserGroup,
    by: ChangeBy,
  ): Promise<{ group: UserGroup; created: boolean }> {
    const partition = partitionOf(environment, group.providedId);
    const prefix = partitionPrefix(environment, partition);
    const key = groupKey(prefix, group.providedId);
    return this.#client
      .run("get", key, (redis) => redis.hgetall(key), "not_made")
      .then((record) =>
        Object.keys(record).length === 0
          ? this.#create(environment, group, partition, by)
          : { group: groupFromRecord(record, environment, this.#cipher, group.providedId), created: false },
      );
  }

  async update(
    environment: Environment,
    providedId: string,
    change: UserGroupChange,
    etag: string,
    by: ChangeBy,
  ): Promise<UserGroup> {
    const partition = partitionOf(environment, providedId);
    const key = groupKey(partitionPrefix(environment, partition), providedId);
    const set: string[] = [];
    const replaced: string[] = [];
    const replace = (field: string, value: object | null) => {
      const pieces = value === null ? [] : piecesOf(field, JSON.stringify(value));
      set.push(...pieces);
      replaced.push(field, String(pieces.length / 2));
    };
    if (change.name !== undefined) set.push(FIELD.name, change.name);
    if (change.mapping !== undefined) replace(PIECES.mapping, change.mapping);
    if (change.properties !== undefined) replace(PIECES.properties, change.properties);
    const expected = etag === "" ? "" : updateTimeOf(etag);
    const answer = await this.#client.change("update", key, (redis, deadline) =>
      redis.ugUpdate(
        key,
        deadline,
        ...[expected, String(replaced.length / 2), namesOf(change), providedId],
        ...replaced,
        ...set,
        ...this.#audit.ofPartition(environment, partition, by),
      ),
    );
    switch (answer[0]) {
      case "missing":
        throw new UserGroupNotFound();
      case "stale":
        throw new EtagMismatch();
      case "same":
      case "done":
        return this.#group(environment, answer, providedId);
      default:
        throw new RecordUnreadable(new Error(`update: ${answer[0]}`));
    }
  }

  async rotate(environment: Environment, rotation: Rotation, by: ChangeBy): Promise<UserGroup> {
    const { target } = rotation;
    const [partition, providedId, oldDigest] =
      target.by === "id"
        ? [partitionOf(environment, target.providedId), target.providedId, ""]
        : [tokenPartition(environment, target.token), undefined, tokenDigest(target.token)];
    // Callers choose it, and what looks like a key name may be a secret.
    const requestId = rotation.requestId === undefined ? "" : digest(rotation.requestId);
    const fingerprint = requestId === "" ? "" : fingerprintOf(rotation);
    if (requestId !== "") await this.#claim(environment, requestId, fingerprint);

    const prefix = partitionPrefix(environment, partition);
    const token = newUserGroupToken(partition);
    const newDigest = tokenDigest(token);
    const { text, keyId } = this.#cipher.encrypt(environment, token, newDigest);
    const answer = await this.#client.change("rotate", tokensKey(prefix), (redis, deadline) =>
      redis.ugRotate(
        tokensKey(prefix),
        deadline,
        prefix,
        oldDigest,
        providedId ?? "",
        newDigest,
        text,
        keyId,
        String(rotation.graceMs),
        requestId,
        fingerprint,
        String(REQUEST_TTL_MS),
        ...this.#audit.ofPartition(environment, partition, by),
      ),
    );
    switch (answer[0]) {
      case "missing":
        throw target.by === "id" ? new UserGroupNotFound() : new TokenNotFound();
      case "replayed":
        if (recordFromAnswer(answer)[FIELD.fingerprint] !== fingerprint) throw new RequestIdReused();
        return this.#group(environment, answer, providedId);
      case "done":
        return this.#group(environment, answer, providedId);
      default:
        throw new RecordUnreadable(new Error(`rotate: ${answer[0]}`));
    }
  }

  async resolve(environment: Environment, token: string): Promise<Viewer> {
    const prefix = partitionPrefix(environment, tokenPartition(environment, token));
    const presented = tokenDigest(token);
    const answer = await this.#client.run("resolve", tokensKey(prefix), (redis) =>
      redis.ugResolve(tokensKey(prefix), prefix, presented),
    );
    const [state] = answer;
    if (state === undefined) throw new TokenNotFound();
    return viewerFromRecord(recordFromAnswer(answer), environment, state === "graced");
  }

  /** Creates a group, unless another caller has done so meanwhile. */
  async #create(environment: Environment, group: NewUserGroup, partition: number, by: ChangeBy) {
    const { providedId, name, mapping, properties } = group;
    const prefix = partitionPrefix(environment, partition);
    const token = newUserGroupToken(partition);
    const newDigest = tokenDigest(token);
    const { first, step, count } = teamIdsOf(environment, partition);
    const fields = [
      ...tokenFields(this.#cipher.encrypt(environment, token, newDigest)),
      ...[FIELD.name, name],
      ...piecesOf(PIECES.mapping, JSON.stringify(mapping)),
      ...(properties === undefined ? [] : piecesOf(PIECES.properties, JSON.stringify(properties))),
    ];
    const answer = await this.#client.change("create", groupKey(prefix, providedId), (redis, deadline) =>
      redis.ugCreate(
        groupKey(prefix, providedId),
        deadline,
        tokensKey(prefix),
        newDigest,
        teamCountKey(prefix),
        String(first),
        String(step),
        String(count),
        providedId,
        idsKey(prefix),
        `${namesOf(group)},token`,
        ...fields,
        ...this.#audit.ofPartition(environment, partition, by),
      ),
    );
    const [outcome, now, teamId] = answer;
    if (outcome === "full") throw new EnvironmentFull();
    if (outcome === "found") return { group: this.#group(environment, answer, providedId), created: false };
    const time = Number(now);
    const times = { createTime: time, updateTime: time, tokenCreateTime: time };
    const made = { ...group, ...times, token, teamId: Number(teamId), etag: etagOf(time) };
    return { group: { ...made, environmentTag: environment.tag }, created: true };
  }

  #group(environment: Environment, answer: readonly string[], providedId?: string): UserGroup {
    return groupFromRecord(recordFromAnswer(answer), environment, this.#cipher, providedId);
  }

  /**
   * Ties a request id to its parameters in the whole environment; the rotation
   * itself keeps what it made in the group's partition, which another request
   * under the same id need not look at. Replicas are not waited for: the
   * rotation that follows waits for all that is before it on the connection.
   */
  async #claim(environment: Environment, requestId: string, fingerprint: string): Promise<void> {
    const key = requestClaimKey(partitionPrefix(environment, partitionOf(environment, requestId)), requestId);
    const [, , first] = await this.#client.prepare("claim", key, (redis, deadline) =>
      redis.ugClaim(key, deadline, fingerprint, String(REQUEST_TTL_MS)),
    );
    if (first !== fingerprint) throw new RequestIdReused();
  }
}

/** The names of the fields that a caller gives, separated by commas. */
function namesOf(given: UserGroupChange): string {
  return FIELDS.filter((field) => given[field] !== undefined).join(",");
}

const FIELDS = ["name", "mapping", "properties"] as const satisfies readonly (keyof UserGroupChange)[];

/** @throws TokenNotFound when no group of the environment can have the token */
function tokenPartition(environment: Environment, token: string): number {
  const shape = userGroupTokenShape(token);
  if (shape.kind !== "ours") throw new TokenNotFound(shape.kind === "malformed");
  if (shape.partition >= environment.partitions) throw new TokenNotFound();
  return shape.partition;
}

/** What the caller asked for, and must ask for again in a retry; not the default grace, which may change. */
function fingerprintOf({ target, askedGraceMs }: Rotation): string {
  const parameters = [target.by, target.by === "id" ? target.providedId : target.token, askedGraceMs ?? null];
  return digest(JSON.stringify(parameters));
}
