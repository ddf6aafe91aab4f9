import type { ChangeBy } from "../domain/audit.ts";
import type { Environment } from "../domain/environment.ts";
import { EtagMismatch, RecordUnreadable, UserGroupNotFound } from "../domain/errors.ts";
import type { UserGroupAdminStore, UserGroupRange } from "../domain/store.ts";
import type { ImportedUserGroup, ImportOptions, UserGroupInfo } from "../domain/user-group.ts";
import { CHANGED, FIELD, INDEXED } from "./fields.ts";
import { forgetLater } from "./foreign-tokens.ts";
import { exportGroups, listGroups } from "./group-lists.ts";
import { type GroupParts, infoFromRecord, updateTimeOf } from "./group-record.ts";
import { importGroups } from "./imports.ts";
import { groupKeyOf, KEY, placeOf } from "./keys.ts";
import { READ, recordFromAnswer } from "./records.ts";
import { revokeTokens } from "./rotations.ts";
import { auditedScript } from "./script.ts";

/**
 * Deletes a group that has this `updateTime`, or any where it is empty, and all that leads to it in its partition. What is
 * kept for request ids names the team id, which no other group gets, and ends by itself.
 * Answers `missing`; `stale`; or `done` and what `endedEntry` holds.
 */
export const DELETE = auditedScript("ugDelete", {
  args: ["prefix", "id", "updateTime"],
  lua: `${INDEXED}${CHANGED}
if redis.call('EXISTS', key) == 0 then return {'missing', stamp} end
if updateTime ~= '' and updateTime ~= last_change(key) then return {'stale', stamp} end
local digest = redis.call('HGET', key, '${FIELD.digest}')
local graced = redis.call('HGET', key, '${FIELD.graceDigest}')
local entry = redis.call('HGET', key, '${FIELD.entry}')
local is_indexed = digest and redis.call('HGET', prefix .. '${KEY.tokens}', indexed(digest)) == id
if graced then redis.call('EXISTS', prefix .. '${KEY.grace}' .. graced) end
redis.call('ZSCORE', prefix .. '${KEY.ids}', id)
redis.call('DEL', key)
if is_indexed then redis.call('HDEL', prefix .. '${KEY.tokens}', indexed(digest)) end
if graced then redis.call('DEL', prefix .. '${KEY.grace}' .. graced) end
redis.call('ZREM', prefix .. '${KEY.ids}', id)
audit(id, '')
return {'done', stamp, digest and entry and entry .. ':' .. digest or ''}`,
});

/** The administration of user groups in Redis. Which keys hold what: `keys.ts` and `fields.ts`. */
export class RedisUserGroupAdmin implements UserGroupAdminStore {
  readonly #parts: GroupParts;

  constructor(parts: GroupParts) {
    this.#parts = parts;
  }

  list(environment: Environment, range: UserGroupRange) {
    return listGroups(this.#parts, environment, range);
  }

  export(environment: Environment, range: UserGroupRange) {
    return exportGroups(this.#parts, environment, range);
  }

  async lookUp(environment: Environment, providedId: string): Promise<UserGroupInfo> {
    const key = groupKeyOf(environment, providedId);
    const answer = await this.#parts.client.ask("look-up", READ, { key });
    if (answer.length === 0) throw new UserGroupNotFound();
    return infoFromRecord(recordFromAnswer(answer), providedId, Number(answer[1]));
  }

  async delete(environment: Environment, providedId: string, etag: string, by: ChangeBy): Promise<void> {
    const { client, audit } = this.#parts;
    const { partition, prefix, key } = placeOf(environment, providedId);
    const [state, , entry = ""] = await client.change("delete", DELETE, {
      ...{ key, prefix, id: providedId, updateTime: updateTimeOf(etag) },
      ...audit.ofPartition(environment, partition, by),
    });
    if (state === "missing") throw new UserGroupNotFound();
    if (state === "stale") throw new EtagMismatch();
    if (state !== "done") throw new RecordUnreadable(new Error(`delete: ${state}`));
    forgetLater(client, environment, { id: providedId, entry });
  }

  async revokeTokens(environment: Environment, providedId: string, requestId: string, by: ChangeBy) {
    const { record, now } = await revokeTokens(this.#parts, environment, { providedId, requestId }, by);
    return infoFromRecord(record, providedId, now);
  }

  import(environment: Environment, groups: readonly ImportedUserGroup[], options: ImportOptions, by: ChangeBy) {
    return importGroups(this.#parts, environment, groups, { ...options, by });
  }
}
