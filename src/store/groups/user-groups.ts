import { type Environment, teamIdsOf } from "../../domain/environment.ts";
import { TokenNotFound, UserGroupNotFound } from "../../domain/errors.ts";
import type { UserGroupStore } from "../../domain/store.ts";
import { newUserGroupToken } from "../../domain/token.ts";
import type { ViewerSessionStore } from "../../domain/viewer-session.ts";
import { auditedScript } from "../audit/audit.ts";
import { tokenDigest } from "../encryption/encryption.ts";
import { KEY, locateGroup, partitionPrefix } from "../keys.ts";
import { isEmpty, recordFromAnswer, type StoredRecord } from "../records.ts";
import { readScript } from "../redis/script.ts";
import { CHANGED, DROP, ENTRY, FIELD, GRACE, INDEXED } from "./fields.ts";
import { READ_HOLDER, tokenPartition } from "./foreign-tokens.ts";
import {
  changeArgs,
  changedFields,
  changedGroup,
  etagOf,
  type GroupDeps,
  generationOf,
  groupFromRecord,
  requireDone,
  tokenFields,
  updateTimeOf,
  viewerFromRecord,
} from "./group-record.ts";
import { WRITE_GROUP } from "./imports.ts";
import { rotate } from "./rotations.ts";
import { resolveSession } from "./viewer-sessions.ts";

/**
 * Changes a group that has this `updateTime`, or any where it is empty. `names` are those of the fields that are replaced,
 * `replaced` how many of these are kept in pieces. Behind the arguments come, for each of these, its field and how many pieces
 * it has from now on; then fields to set with their values.
 * The caller decrypts the token of the answer, so the script first checks that `heldKeys` (`TokenCipher.keyIdList`) has
 * its key. Answers one of:
 * - `missing`; `unreadable` when the record is not whole; `stale`;
 * - `locked` and the id of the token's key, when `heldKeys` lacks it;
 * - `same` and the record, when it has these values already;
 * - `done` and the record; or `crowded`, as a field how many older events were dropped, and the record.
 */
export const UPDATE = auditedScript("ugUpdate", {
  made: ["done", "crowded"],
  args: ["id", "updateTime", "heldKeys", "names", "replaced"],
  lua: `${DROP}${CHANGED}
local before = last_change(key)
if not before then return {redis.call('EXISTS', key) == 1 and 'unreadable' or 'missing', stamp} end
if not tonumber(before) then return {'unreadable', stamp} end
if updateTime ~= '' and updateTime ~= before then return {'stale', stamp} end
local key_id = redis.call('HGET', key, '${FIELD.keyId}') or ''
if not string.find(heldKeys, ',' .. key_id .. ',', 1, true) then return {'locked', stamp, key_id} end
local set = rest + 2 * tonumber(replaced)
local function is_same()
  for i = set, #ARGV, 2 do
    if redis.call('HGET', key, ARGV[i]) ~= ARGV[i + 1] then return false end
  end
  for i = rest, set - 1, 2 do
    if redis.call('HEXISTS', key, ARGV[i] .. ARGV[i + 1]) == 1 then return false end
  end
  return true
end
if is_same() then return {'same', stamp, spread(redis.call('HGETALL', key))} end
redis.call('HSET', key, '${FIELD.updateTime}', after(tonumber(before)), spread(ARGV, set))
for i = rest, set - 1, 2 do drop(key, ARGV[i], tonumber(ARGV[i + 1])) end
local dropped = audit(id, names)
if dropped == 0 then return {'done', stamp, spread(redis.call('HGETALL', key))} end
return {'crowded', stamp, '${FIELD.dropped}', string.format('%.0f', dropped), spread(redis.call('HGETALL', key))}`,
});

/**
 * Finds the group that a token stands for, by the index of tokens. An index only says where to look: the record has to
 * name the token, and a grace must not be over.
 * Answers nothing when no group has it; `elsewhere`, Redis' clock and the id of a group of any partition that may have it;
 * or `current` or `graced`, Redis' clock, the id as a field and the record.
 */
const RESOLVE = readScript("ugResolve", {
  args: ["prefix", "digest"],
  lua: `${INDEXED}${GRACE}${ENTRY}
local groups = prefix .. '${KEY.group}'
local id = redis.call('HGET', key, indexed(digest))
local state = id and redis.call('HGET', groups .. id, '${FIELD.digest}') == digest and 'current'
if not state then
  id = redis.call('GET', prefix .. '${KEY.grace}' .. digest)
  state = id and grace_left(groups .. id, digest) > 0 and 'graced'
end
if not state then
  id = holder_by(prefix, digest)
  return id and {'elsewhere', stamp, id} or {}
end
return {state, stamp, '${FIELD.providedId}', id, spread(redis.call('HGETALL', groups .. id))}`,
});

/** User groups in Redis. Which keys hold what: `keys.ts` and `fields.ts`. */
export function redisUserGroups(deps: GroupDeps): UserGroupStore & ViewerSessionStore {
  const { client, cipher, audit } = deps;

  /** The record that a token leads to. @throws TokenNotFound */
  const find = async (environment: Environment, token: string) => {
    const digest = tokenDigest(token);
    const prefix = partitionPrefix(environment, tokenPartition(environment, token, digest));
    let answer = await client.ask("resolve", RESOLVE, { key: prefix + KEY.tokens, prefix, digest });
    if (answer[0] === "elsewhere") {
      const [, , id = ""] = answer;
      answer = await client.ask("resolve", READ_HOLDER, { key: locateGroup(environment, id).key, id, digest });
    }
    const [state] = answer;
    if (state === undefined) throw new TokenNotFound();
    return { record: recordFromAnswer(answer), isGraced: state === "graced" };
  };

  const read = async (environment: Environment, providedId: string) => {
    const record = await client.run("get", "hgetall", [locateGroup(environment, providedId).key]);
    if (isEmpty(record)) throw new UserGroupNotFound();
    return { record: { ...record, [FIELD.providedId]: providedId } as StoredRecord, isGraced: false };
  };

  /** Creates a group, unless another caller has done so meanwhile. */
  const create: UserGroupStore["getOrCreate"] = async (environment, group, by) => {
    const { providedId } = group;
    const { partition, prefix, key } = locateGroup(environment, providedId);
    const token = newUserGroupToken(partition);
    const digest = tokenDigest(token);
    const { names, set } = changedFields(group);
    const encrypted = tokenFields(cipher.encrypt(environment, token, digest));
    const answer = await client.change("create", WRITE_GROUP, {
      ...{ key, prefix, id: providedId, updateTime: "", digest, isIndexed: true, graceMs: 0 },
      ...teamIdsOf(environment, partition),
      ...changeArgs({ names: [...names, "token"], replaced: [], set: [...encrypted, ...set] }),
      ...audit.ofPartition(prefix, by),
    });
    const [outcome, now, teamId] = requireDone("create", answer);
    if (outcome === "changed") {
      return { group: groupFromRecord(recordFromAnswer(answer), environment, cipher, providedId), created: false };
    }
    const time = Number(now);
    const times = { createTime: time, updateTime: time, tokenCreateTime: time };
    const made = { ...group, ...times, token, teamId: Number(teamId), etag: etagOf(time) };
    return { group: { ...made, environmentTag: environment.tag }, created: true };
  };

  return {
    async get(environment, providedId) {
      const record = await client.run("get", "hgetall", [locateGroup(environment, providedId).key]);
      if (isEmpty(record)) throw new UserGroupNotFound();
      return groupFromRecord(record, environment, cipher, providedId);
    },

    async getOrCreate(environment, group, by) {
      const record = await client.run("get", "hgetall", [locateGroup(environment, group.providedId).key], "not_made");
      if (isEmpty(record)) return create(environment, group, by);
      return { group: groupFromRecord(record, environment, cipher, group.providedId), created: false };
    },

    async update(environment, providedId, change, etag, by) {
      const { prefix, key } = locateGroup(environment, providedId);
      const answer = await client.change("update", UPDATE, {
        ...{ key, id: providedId, updateTime: updateTimeOf(etag), heldKeys: cipher.keyIdList },
        ...changeArgs(changedFields(change)),
        ...audit.ofUpdate(prefix, by, environment),
      });
      const [state, , , dropped] = requireDone("update", answer);
      if (state === "crowded") audit.onDropped(environment, Number(dropped));
      return changedGroup(recordFromAnswer(answer), environment, cipher, providedId);
    },

    async rotate(environment, rotation, by) {
      const { record } = await rotate(deps, environment, rotation, { by });
      const providedId = rotation.target.by === "id" ? rotation.target.providedId : undefined;
      return changedGroup(record, environment, cipher, providedId);
    },

    async resolve(environment, token) {
      const { record, isGraced } = await find(environment, token);
      return viewerFromRecord(record, environment, isGraced);
    },

    async sessionSubject(environment, target) {
      const { record, isGraced } = await (target.by === "token"
        ? find(environment, target.token)
        : read(environment, target.providedId));
      return { viewer: viewerFromRecord(record, environment, isGraced), generation: generationOf(record) };
    },

    resolveSession: (environment, session) => resolveSession(client, environment, session),
  };
}
