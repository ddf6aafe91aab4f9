import type { ChangeBy } from "../domain/audit.ts";
import type { Environment } from "../domain/environment.ts";
import { EnvironmentFull, EtagMismatch, RecordUnreadable, TokenNotFound, UserGroupNotFound } from "../domain/errors.ts";
import { partitionOf } from "../domain/partition.ts";
import type { UserGroupStore } from "../domain/store.ts";
import { teamIdsOf } from "../domain/team-id.ts";
import { newUserGroupToken } from "../domain/token.ts";
import type { NewUserGroup, Rotation, UserGroup, UserGroupChange, Viewer } from "../domain/user-group.ts";
import type { Audit } from "./audit.ts";
import type { StoreClient } from "./client.ts";
import { type TokenCipher, tokenDigest } from "./encryption.ts";
import { FIELD, PIECES, piecesOf } from "./fields.ts";
import { ForeignTokens } from "./foreign-tokens.ts";
import { etagOf, groupFromRecord, tokenFields, updateTimeOf, viewerFromRecord } from "./group-record.ts";
import { groupKey, groupKeyOf, partitionPrefix, tokensKey } from "./keys.ts";
import { Rotations, tokenPartition } from "./rotations.ts";
import { isEmpty, recordFromAnswer } from "./stored-record.ts";

/** What the stores of user groups are made of. */
export interface UserGroupsParts {
  readonly client: StoreClient;
  readonly cipher: TokenCipher;
  readonly audit: Audit;
}

/** User groups in Redis. Which keys hold what: `keys.ts` and `fields.ts`. */
export class RedisUserGroups implements UserGroupStore {
  readonly #client: StoreClient;
  readonly #cipher: TokenCipher;
  readonly #audit: Audit;
  readonly #foreignTokens: ForeignTokens;
  readonly #rotations: Rotations;

  constructor(parts: UserGroupsParts) {
    this.#client = parts.client;
    this.#cipher = parts.cipher;
    this.#audit = parts.audit;
    this.#foreignTokens = new ForeignTokens(parts.client);
    this.#rotations = new Rotations({ ...parts, foreignTokens: this.#foreignTokens });
  }

  async get(environment: Environment, providedId: string): Promise<UserGroup> {
    const key = groupKeyOf(environment, providedId);
    const record = await this.#client.run("get", "hgetall", [key]);
    if (isEmpty(record)) throw new UserGroupNotFound();
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
      .run("get", "hgetall", [key], "not_made")
      .then((record) =>
        isEmpty(record)
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
    const answer = await this.#client.change("update", "ugUpdate", [
      key,
      ...[updateTimeOf(etag), String(replaced.length / 2), namesOf(change), providedId],
      ...replaced,
      ...set,
      ...this.#audit.ofPartition(environment, partition, by),
    ]);
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
    const { record } = await this.#rotations.rotate(environment, rotation, by);
    const providedId = rotation.target.by === "id" ? rotation.target.providedId : undefined;
    return groupFromRecord(record, environment, this.#cipher, providedId);
  }

  async resolve(environment: Environment, token: string): Promise<Viewer> {
    const presented = tokenDigest(token);
    const partition = tokenPartition(environment, token);
    const answer =
      partition === undefined
        ? await this.#foreignTokens.resolve(environment, presented)
        : await this.#resolve(partitionPrefix(environment, partition), presented);
    const [state] = answer;
    if (state === undefined) throw new TokenNotFound();
    return viewerFromRecord(recordFromAnswer(answer), environment, state === "graced");
  }

  #resolve(prefix: string, presented: string): Promise<string[]> {
    return this.#client.run("resolve", "ugResolve", [tokensKey(prefix), prefix, presented]);
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
    const key = groupKey(prefix, providedId);
    const answer = await this.#client.change("create", "ugCreate", [
      key,
      ...[prefix, providedId, newDigest, String(first), String(step), String(count)],
      `${namesOf(group)},token`,
      ...fields,
      ...this.#audit.ofPartition(environment, partition, by),
    ]);
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
}

/** The names of the fields that a caller gives, separated by commas. */
function namesOf(given: UserGroupChange): string {
  return FIELDS.filter((field) => given[field] !== undefined).join(",");
}

const FIELDS = ["name", "mapping", "properties"] as const satisfies readonly (keyof UserGroupChange)[];
