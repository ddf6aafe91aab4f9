import type { ChangeBy } from "../domain/audit.ts";
import { type Environment, teamIdsOf } from "../domain/environment.ts";
import {
  EnvironmentFull,
  EnvironmentNotFound,
  EtagMismatch,
  RecordUnreadable,
  TokenNotFound,
  UserGroupNotFound,
} from "../domain/errors.ts";
import type { UserGroupStore } from "../domain/store.ts";
import { newUserGroupToken } from "../domain/token.ts";
import type { NewUserGroup, Rotation, UserGroup, UserGroupChange, Viewer } from "../domain/user-group.ts";
import { tokenDigest } from "./encryption.ts";
import { ForeignTokens, tokenPartition } from "./foreign-tokens.ts";
import type { GroupParts, UserGroupsParts } from "./group-parts.ts";
import { changedFields, etagOf, groupFromRecord, tokenFields, updateTimeOf, viewerFromRecord } from "./group-record.ts";
import { groupKeyOf, partitionPrefix, placeOf, tokensKey } from "./keys.ts";
import { Rotations } from "./rotations.ts";
import { isEmpty, recordFromAnswer } from "./stored-record.ts";

/** User groups in Redis. Which keys hold what: `keys.ts` and `fields.ts`. */
export class RedisUserGroups implements UserGroupStore {
  readonly #parts: GroupParts;
  readonly #rotations: Rotations;

  constructor(parts: UserGroupsParts) {
    this.#parts = { ...parts, foreignTokens: new ForeignTokens(parts.client) };
    this.#rotations = new Rotations(this.#parts);
  }

  async get(environment: Environment, providedId: string): Promise<UserGroup> {
    const key = groupKeyOf(environment, providedId);
    const record = await this.#parts.client.run("get", "hgetall", [key]);
    if (isEmpty(record)) throw new UserGroupNotFound();
    return groupFromRecord(record, environment, this.#parts.cipher, providedId);
  }

  getOrCreate(environment: Environment, group: NewUserGroup, by: ChangeBy) {
    const key = groupKeyOf(environment, group.providedId);
    return this.#parts.client
      .run("get", "hgetall", [key], "not_made")
      .then((record) =>
        isEmpty(record)
          ? this.#create(environment, group, by)
          : { group: groupFromRecord(record, environment, this.#parts.cipher, group.providedId), created: false },
      );
  }

  async update(
    environment: Environment,
    providedId: string,
    change: UserGroupChange,
    etag: string,
    by: ChangeBy,
  ): Promise<UserGroup> {
    const { partition, key } = placeOf(environment, providedId);
    const { names, replaced, set } = changedFields(change);
    const answer = await this.#parts.client.change("update", "ugUpdate", [
      key,
      ...[updateTimeOf(etag), String(replaced.length / 2), names.join(","), providedId],
      ...replaced,
      ...set,
      ...this.#parts.audit.ofUpdate(environment, partition, by),
    ]);
    switch (answer[0]) {
      case "missing":
        throw new UserGroupNotFound();
      case "stale":
        throw new EtagMismatch();
      case "crowded":
        this.#parts.audit.onDropped(environment, Number(answer[3]));
        return this.#group(environment, answer, providedId);
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
    return groupFromRecord(record, environment, this.#parts.cipher, providedId);
  }

  async resolve(environment: Environment, token: string): Promise<Viewer> {
    const { client } = this.#parts;
    const presented = tokenDigest(token);
    const prefix = partitionPrefix(environment, tokenPartition(environment, token, presented));
    let answer = await client.run("resolve", "ugResolve", [tokensKey(prefix), prefix, presented]);
    if (answer[0] === "elsewhere") {
      const [, , id = ""] = answer;
      answer = await client.run("resolve", "ugResolveAt", [groupKeyOf(environment, id), id, presented]);
    }
    const [state] = answer;
    if (state === undefined) throw new TokenNotFound();
    return viewerFromRecord(recordFromAnswer(answer), environment, state === "graced");
  }

  /** Creates a group, unless another caller has done so meanwhile. */
  async #create(environment: Environment, group: NewUserGroup, by: ChangeBy) {
    const { providedId } = group;
    const { partition, prefix, key } = placeOf(environment, providedId);
    const token = newUserGroupToken(partition);
    const newDigest = tokenDigest(token);
    const { first, step, count } = teamIdsOf(environment, partition);
    const { names, set } = changedFields(group);
    const answer = await this.#parts.client.change("create", "ugCreate", [
      key,
      ...[prefix, providedId, newDigest, String(first), String(step), String(count)],
      [...names, "token"].join(","),
      ...tokenFields(this.#parts.cipher.encrypt(environment, token, newDigest)),
      ...set,
      ...this.#parts.audit.ofPartition(environment, partition, by),
    ]);
    const [outcome, now, teamId] = answer;
    if (outcome === "closed") throw new EnvironmentNotFound();
    if (outcome === "full") throw new EnvironmentFull();
    if (outcome === "found") return { group: this.#group(environment, answer, providedId), created: false };
    const time = Number(now);
    const times = { createTime: time, updateTime: time, tokenCreateTime: time };
    const made = { ...group, ...times, token, teamId: Number(teamId), etag: etagOf(time) };
    return { group: { ...made, environmentTag: environment.tag }, created: true };
  }

  #group(environment: Environment, answer: readonly string[], providedId?: string): UserGroup {
    return groupFromRecord(recordFromAnswer(answer), environment, this.#parts.cipher, providedId);
  }
}
