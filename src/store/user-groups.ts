import { randomBytes } from "node:crypto";
import type { Environment } from "../domain/environment.ts";
import { EtagMismatch, RecordUnreadable, RequestIdReused, TokenNotFound, UserGroupNotFound } from "../domain/errors.ts";
import { partitionOf } from "../domain/partition.ts";
import type { UserGroupStore } from "../domain/store.ts";
import { newUserGroupToken, userGroupTokenShape } from "../domain/token.ts";
import type { NewUserGroup, Rotation, UserGroup, UserGroupChange, Viewer } from "../domain/user-group.ts";
import type { StoreClient } from "./client.ts";
import { digest, type TokenCipher } from "./encryption.ts";
import { groupKey, partitionPrefix, requestClaimKey, tokensKey } from "./keys.ts";
import {
  type GroupRecord,
  groupFromRecord,
  idBinding,
  linkBinding,
  recordFromFlat,
  viewerFromRecord,
} from "./record.ts";
import type { TeamIds } from "./team-ids.ts";

/** How long the answer of a rotation is kept for retries, in milliseconds. */
const REQUEST_TTL_MS = 24 * 60 * 60 * 1000;

/** Tries to settle an earlier rotation before a rotation gives up; each failed try means another one won. */
const SETTLE_TRIES = 8;

/** What the store is made of. */
export interface RedisUserGroupsParts {
  readonly client: StoreClient;
  readonly cipher: TokenCipher;
  readonly teamIds: TeamIds;
}

/** User groups in Redis. Which keys hold what: `keys.ts` and `record.ts`. */
export class RedisUserGroups implements UserGroupStore {
  readonly #client: StoreClient;
  readonly #cipher: TokenCipher;
  readonly #teamIds: TeamIds;
  readonly #settling = new Set<Promise<void>>();

  constructor(parts: RedisUserGroupsParts) {
    this.#client = parts.client;
    this.#cipher = parts.cipher;
    this.#teamIds = parts.teamIds;
  }

  getOrCreate(environment: Environment, group: NewUserGroup): Promise<{ group: UserGroup; created: boolean }> {
    const partition = partitionOf(environment, group.providedId);
    const prefix = partitionPrefix(environment, partition);
    const key = groupKey(prefix, group.providedId);
    return this.#client
      .run("get", (redis) => redis.flatHash(key))
      .then((flat) =>
        flat.length === 0
          ? this.#create(environment, group, partition)
          : { group: this.#group(recordFromFlat(flat, 0), environment, group.providedId), created: false },
      );
  }

  async update(environment: Environment, providedId: string, change: UserGroupChange, etag = ""): Promise<UserGroup> {
    const key = groupKey(partitionPrefix(environment, partitionOf(environment, providedId)), providedId);
    const set: string[] = [];
    const remove: string[] = [];
    if (change.name !== undefined) set.push("name", change.name);
    if (change.mapping !== undefined) set.push("mapping", JSON.stringify(change.mapping));
    if (change.properties === null) remove.push("properties");
    else if (change.properties !== undefined) set.push("properties", JSON.stringify(change.properties));
    if (set.length + remove.length > 0) set.push("etag", newEtag(), "update_time", String(Date.now()));
    const [outcome, ...flat] = await this.#client.change("update", (redis) =>
      redis.ugUpdate(key, etag, String(set.length / 2), ...set, ...remove),
    );
    if (outcome === "missing") throw new UserGroupNotFound();
    if (outcome === "stale") throw new EtagMismatch();
    if (outcome !== "done") throw new RecordUnreadable(new Error(`update: ${outcome}`));
    return this.#group(recordFromFlat(flat, 0), environment, providedId);
  }

  async rotate(environment: Environment, rotation: Rotation): Promise<UserGroup> {
    const { target } = rotation;
    // Callers choose it, and what looks like a key name may be a secret.
    const requestId = rotation.requestId === undefined ? "" : digest(rotation.requestId);
    const providedId = target.by === "id" ? target.providedId : undefined;
    const partition =
      target.by === "id" ? partitionOf(environment, target.providedId) : tokenPartition(environment, target.token);
    const prefix = partitionPrefix(environment, partition);
    const fingerprint = requestId === "" ? "" : fingerprintOf(rotation);
    if (requestId !== "") await this.#claim(environment, requestId, fingerprint);

    const token = newUserGroupToken(partition);
    const tokenDigest = digest(token);
    const oldDigest = target.by === "token" ? digest(target.token) : "";
    const binding =
      target.by === "id" ? idBinding(environment, target.providedId) : linkBinding(environment, oldDigest);
    const encrypted = this.#cipher.encrypt(token, binding);

    for (let tries = 0; tries < SETTLE_TRIES; tries++) {
      const now = Date.now();
      const [outcome, ...flat] = await this.#client.change("rotate", (redis) =>
        redis.ugRotate(
          tokensKey(prefix),
          prefix,
          oldDigest,
          providedId ?? "",
          tokenDigest,
          encrypted,
          newEtag(),
          String(now),
          String(rotation.graceMs),
          String(now + rotation.graceMs),
          requestId,
          fingerprint,
          String(REQUEST_TTL_MS),
        ),
      );
      const record = recordFromFlat(flat, 0);
      switch (outcome) {
        case "missing":
          throw target.by === "id" ? new UserGroupNotFound() : new TokenNotFound();
        case "unsettled":
          await this.#settle(environment, prefix, record);
          break;
        case "replayed":
          if (record["fingerprint"] !== fingerprint) throw new RequestIdReused();
          return this.#group(record, environment, providedId);
        case "done": {
          const group = this.#group(record, environment, providedId);
          if (record["token_link"] !== undefined) this.#settleLater(environment, prefix, record);
          return group;
        }
        default:
          throw new RecordUnreadable(new Error(`rotate: ${outcome}`));
      }
    }
    throw new TokenNotFound();
  }

  async resolve(environment: Environment, token: string): Promise<Viewer> {
    const prefix = partitionPrefix(environment, tokenPartition(environment, token));
    const tokenDigest = digest(token);
    const [state, ...flat] = await this.#client.run("resolve", (redis) =>
      redis.ugResolve(tokensKey(prefix), prefix, tokenDigest),
    );
    if (state === undefined) throw new TokenNotFound();
    return viewerFromRecord(recordFromFlat(flat, 0), environment, { state, digest: tokenDigest });
  }

  /** Waits for the settlements under way; those that fail are made up for by the next rotation. */
  async drain(): Promise<void> {
    await Promise.all(this.#settling);
  }

  /** Creates a group, unless another caller has done so meanwhile. */
  async #create(environment: Environment, group: NewUserGroup, partition: number) {
    const prefix = partitionPrefix(environment, partition);
    const token = newUserGroupToken(partition);
    const fresh = await this.#newRecord(environment, group, token);
    const args = Object.entries(fresh).flatMap(([field, value]) => (value === undefined ? [] : [field, value]));
    const existing = await this.#client.change("create", (redis) =>
      redis.ugCreate(groupKey(prefix, group.providedId), tokensKey(prefix), digest(token), group.providedId, ...args),
    );
    const created = existing.length === 0;
    const stored = created ? fresh : recordFromFlat(existing, 0);
    return { group: this.#group(stored, environment, group.providedId), created };
  }

  #group(record: GroupRecord, environment: Environment, providedId?: string): UserGroup {
    return groupFromRecord(record, environment, this.#cipher, providedId);
  }

  async #newRecord(environment: Environment, group: NewUserGroup, token: string): Promise<GroupRecord> {
    const now = String(Date.now());
    return {
      provided_id: group.providedId,
      team_id: String(await this.#teamIds.next()),
      name: group.name,
      mapping: JSON.stringify(group.mapping),
      properties: group.properties === undefined ? undefined : JSON.stringify(group.properties),
      token: this.#cipher.encrypt(token, idBinding(environment, group.providedId)),
      token_digest: digest(token),
      etag: newEtag(),
      create_time: now,
      update_time: now,
      token_create_time: now,
    };
  }

  /**
   * Ties a request id to its parameters in the whole environment; the rotation
   * itself keeps its answer in the group's partition, which another request
   * under the same id need not look at.
   */
  async #claim(environment: Environment, requestId: string, fingerprint: string): Promise<void> {
    const key = requestClaimKey(partitionPrefix(environment, partitionOf(environment, requestId)), requestId);
    const [, first] = await this.#client.change("claim", (redis) =>
      Promise.all([redis.set(key, fingerprint, "PX", REQUEST_TTL_MS, "NX"), redis.get(key)]),
    );
    if (first !== fingerprint) throw new RequestIdReused();
  }

  /** Binds the token of a rotation by token to its group's id. */
  async #settle(environment: Environment, prefix: string, record: GroupRecord): Promise<void> {
    const group = this.#group(record, environment);
    const encrypted = this.#cipher.encrypt(group.token, idBinding(environment, group.providedId));
    await this.#client.change("settle", (redis) =>
      redis.ugSettle(groupKey(prefix, group.providedId), digest(group.token), encrypted),
    );
  }

  #settleLater(environment: Environment, prefix: string, record: GroupRecord): void {
    const settling = this.#settle(environment, prefix, record)
      .catch(() => {})
      .finally(() => this.#settling.delete(settling));
    this.#settling.add(settling);
  }
}

/** @throws TokenNotFound when no group of the environment can have the token */
function tokenPartition(environment: Environment, token: string): number {
  const shape = userGroupTokenShape(token);
  if (shape.kind !== "ours") throw new TokenNotFound(shape.kind === "malformed");
  if (shape.partition >= environment.partitions) throw new TokenNotFound();
  return shape.partition;
}

function fingerprintOf({ target, graceMs }: Rotation): string {
  const parameters = [target.by, target.by === "id" ? target.providedId : target.token, graceMs];
  return digest(JSON.stringify(parameters));
}

function newEtag(): string {
  return randomBytes(9).toString("base64url");
}
