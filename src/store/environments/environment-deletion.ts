import type { ApiTokenStore } from "../../domain/api-token.ts";
import type { ChangeBy } from "../../domain/audit.ts";
import { type Environment, environmentPath, TEAM_IDS, teamIdsOf } from "../../domain/environment.ts";
import { ApiTokenNotFound, EnvironmentNotEmpty, EnvironmentNotFound } from "../../domain/errors.ts";
import { type EnvironmentDeletion, type EnvironmentStore, MAX_STORE_CALL_MS } from "../../domain/store.ts";
import { type Audit, auditedScript } from "../audit/audit.ts";
import { FIELD } from "../groups/fields.ts";
import { forgetLater } from "../groups/foreign-tokens.ts";
import {
  ENVIRONMENTS_KEY,
  environmentKey,
  KEY,
  partitionPrefix,
  partitionsOf,
  REVOKED_CHANNEL,
  signingKeysKey,
  signingKeysMessage,
} from "../keys.ts";
import { ADD_MEMBER, inBatches } from "../records.ts";
import type { StoreClient } from "../redis/client.ts";
import { changeScript } from "../redis/script.ts";
import { ENVIRONMENT_FIELD } from "./environments.ts";

/**
 * How long a partition stays closed, in milliseconds: longer than a worker may believe that the environment is there. Issued
 * API tokens are cached for a day at most, and those of the settings are checked each minute.
 */
export const CLOSED_MS = 25 * 60 * 60 * 1000;

/**
 * For how long an environment that has to be empty is closed until its record is marked, in milliseconds: by a call that is
 * sent in the first third, and takes no longer than another; clocks may differ by the last. The process may end before that.
 */
const EMPTY_MS = 3 * MAX_STORE_CALL_MS;

/** How many groups a call deletes, and a script at once, and how long a call goes on, in milliseconds. */
const MAX_GROUPS = 10_000;
const GROUPS_AT_ONCE = 100;
const MAX_MS = 5000;

/** How many partitions, or API tokens, are worked on at once, so that Redis has time for its other callers. */
const AT_ONCE = 16;

const { number, createTime, deleteTime, partitions, formerPartitions, isDeleted, generation } = ENVIRONMENT_FIELD;

/**
 * Begins the deletion of the environment with this number, or `ends` it. Once it has begun, only the deletion itself finds
 * the environment. After its end the record tells the generation of the next environment of this name, and how many
 * partitions have events of this one. Like all scripts that delete, it also works while Redis' memory is full.
 * Answers `missing` when it is already deleted or replaced by another one; `done`; or `found` when it was begun before.
 */
export const MARK = auditedScript("ugMarkDeletion", {
  evenIfFull: true,
  args: ["number", "ends", "signingKeys", "message"],
  lua: `local is_begun = redis.call('HEXISTS', key, '${deleteTime}') == 1
if redis.call('HGET', key, '${number}') ~= number or ends ~= '' and not is_begun then return {'missing', stamp} end
if ends ~= '' then
  local next = tonumber(redis.call('HGET', key, '${generation}') or '0') + 1
  redis.call('HSET', key, '${isDeleted}', '1', '${generation}', string.format('%.0f', next))
  redis.call('HDEL', key, '${number}', '${createTime}')
  audit('', '')
elseif is_begun then
  return {'found', stamp}
else
  redis.call('EXISTS', signingKeys)
  redis.call('HSET', key, '${deleteTime}', stamp, '${formerPartitions}', redis.call('HGET', key, '${partitions}'))
  redis.call('HDEL', key, '${partitions}')
  redis.call('DEL', signingKeys)
  redis.pcall('PUBLISH', '${REVOKED_CHANNEL}', message)
  audit('', '${deleteTime}')
end
return {'done', stamp}`,
});

/** Takes a member off a sorted set. Answers `done`. */
export const REMOVE_MEMBER = changeScript("ugUnlist", {
  isAlone: true,
  args: ["member"],
  lua: `redis.call('ZREM', key, member)
return {'done', stamp}`,
});

/**
 * Closes a partition that has no group, by its key `closed`, for so many milliseconds from now; 0: opens it again.
 * The first key is that of its ids.
 * Answers `filled` when it has groups, or `done`.
 */
export const CLOSE_EMPTY = changeScript("ugCloseEmpty", {
  evenIfFull: true,
  args: ["closed", "lastsMs"],
  lua: `local state = redis.call('GET', closed)
if lastsMs == '0' then
  if state == 'held' then redis.call('DEL', closed) end
  return {'done', stamp}
end
if redis.call('ZCARD', key) > 0 then return {'filled', stamp} end
if not state or state == 'held' then redis.call('SET', closed, 'held', 'PX', lastsMs) end
return {'done', stamp}`,
});

/**
 * Closes a partition of an environment that is being deleted, and deletes at most `most` of its groups, whose tokens end at
 * once. It may run late, when the environment has been deleted and created again: groups of the new environment, whose
 * team ids do not begin with `first`, are left alone.
 * Answers `done`, how many groups are left, and ids of deleted ones with what `endedEntry` holds of each.
 */
export const CLEAR = changeScript("ugClear", {
  evenIfFull: true,
  args: ["closed", "closedMs", "prefix", "first", "most"],
  lua: `local tokens, counter = prefix .. '${KEY.tokens}', prefix .. '${KEY.teamCount}'
local is_new = redis.call('GET', closed) ~= 'closed'
redis.call('EXISTS', tokens)
redis.call('EXISTS', counter)
local ids = redis.call('ZRANGEBYLEX', key, '-', '+', 'LIMIT', '0', most)
local function read(id, name)
  local value = redis.pcall('HGET', prefix .. '${KEY.group}' .. id, name)
  return type(value) == 'string' and value
end
for _, id in ipairs(ids) do
  local offset = (tonumber(read(id, '${FIELD.teamId}') or '') or first) + 0.0 - first
  if offset < 0 or offset >= ${TEAM_IDS}.0 then return {'done', stamp, '0'} end
end
redis.call('SET', closed, 'closed', 'PX', closedMs)
if is_new and most ~= '0' then redis.call('DEL', tokens) end
local ended = {}
for _, id in ipairs(ids) do
  local digest, graced = read(id, '${FIELD.digest}'), read(id, '${FIELD.graceDigest}')
  local entry = digest and read(id, '${FIELD.entry}')
  if entry then
    ended[#ended + 1] = id
    ended[#ended + 1] = entry .. ':' .. digest
  end
  if graced then redis.call('DEL', prefix .. '${KEY.grace}' .. graced) end
  redis.call('DEL', prefix .. '${KEY.group}' .. id)
  redis.call('ZREM', key, id)
end
local left = redis.call('ZCARD', key)
if left == 0 and (is_new or #ids > 0) then redis.call('DEL', counter, tokens) end
return {'done', stamp, string.format('%.0f', left), spread(ended)}`,
});

/** What deletions are made of. */
export interface EnvironmentDeletionDeps {
  readonly client: StoreClient;
  readonly audit: Audit;
  readonly environments: Pick<EnvironmentStore, "get" | "countUserGroups">;
  readonly apiTokens: Pick<ApiTokenStore, "list" | "revoke">;
  /** How many groups a call deletes, roughly; default 10,000. */
  readonly maxGroups?: number;
}

/**
 * Deletes environments in Redis. The record, the API tokens and the partitions of one are in different slots, so its record
 * is marked first, and every step may be repeated:
 *
 * - An environment that has to be empty is closed partition by partition, each only if it has no group, for some minutes.
 * - Its record says that it is being deleted. Nobody finds it any more, so nobody makes an API token in it. The keys that
 *   sign its viewer sessions are gone.
 * - Its API tokens end.
 * - Every partition is closed under the number of the environment, and its groups are deleted.
 * - Its record says that it is deleted, for good. A later environment of the same name has another number, so workers that
 *   still know the old one create no group in it.
 */
export function redisEnvironmentDeletion(deps: EnvironmentDeletionDeps): EnvironmentDeletion {
  const { client, audit, environments, apiTokens, maxGroups = MAX_GROUPS } = deps;

  /** @param sendBy default: this ends the deletion. @throws EnvironmentNotFound when another call has ended it meanwhile */
  const mark = async (environment: Environment, by: ChangeBy, sendBy?: number): Promise<void> => {
    const args = {
      ...{ key: environmentKey(environment), number: environment.number, ends: sendBy === undefined },
      ...{ signingKeys: signingKeysKey(environment), message: signingKeysMessage(environment) },
      ...audit.ofEnvironment(environment, by),
    };
    const [state] = await client.change("delete-environment", MARK, args, sendBy);
    if (state === "missing") throw new EnvironmentNotFound();
  };

  const unlist = async (environment: Environment): Promise<void> => {
    const listed = { key: ENVIRONMENTS_KEY, member: environmentPath(environment) };
    await client.change("list-environment", REMOVE_MEMBER, listed);
    // It may have been made anew before, and been found on the list.
    const record = await client.run("environment", "hgetall", [environmentKey(environment)]);
    if (record[isDeleted] === undefined) await client.change("list-environment", ADD_MEMBER, listed);
  };

  /** Closes an environment without user groups for a moment. @throws EnvironmentNotEmpty */
  const closeEmpty = async (environment: Environment): Promise<void> => {
    const close = async (partition: number, lastsMs: number) => {
      const { key, closed } = keysOf(environment, partition);
      const [state] = await client.change("hold-partition", CLOSE_EMPTY, { key, closed, lastsMs });
      if (state === "filled") throw new EnvironmentNotEmpty();
    };
    try {
      await eachOf(partitionsOf(environment), (partition) => close(partition, EMPTY_MS));
    } catch (error) {
      // Partitions that stay closed, because Redis is away or this fails, open by themselves. This may open those that another
      // deletion has closed; but that one almost surely finds the groups that this one found.
      if (error instanceof EnvironmentNotEmpty)
        await eachOf(partitionsOf(environment), (partition) => close(partition, 0).catch(() => {}));
      throw error;
    }
  };

  /** @throws EnvironmentNotFound when another call has deleted the environment meanwhile */
  const endApiTokens = async (environment: Environment, by: ChangeBy): Promise<void> => {
    for (;;) {
      const { items } = await apiTokens.list(environment, {}, { after: "", size: 1000 });
      if (items.length === 0) return;
      // While it is being deleted no API token is made in it, so these are none of one that was made anew.
      const { number, deleteTime } = await environments.get(environment);
      if (deleteTime === undefined || number !== environment.number) throw new EnvironmentNotFound();
      await eachOf(items, ({ id }) =>
        apiTokens.revoke(environment, id, by).catch((error: unknown) => {
          // Another call has revoked it.
          if (!(error instanceof ApiTokenNotFound)) throw error;
        }),
      );
    }
  };

  /** Closes all partitions and, by force, deletes groups of them. @returns how many are left */
  const clear = async (environment: Environment, force: boolean): Promise<number> => {
    const most = force ? Math.max(1, Math.min(GROUPS_AT_ONCE, Math.floor(maxGroups / environment.partitions))) : 0;
    const end = performance.now() + MAX_MS;
    let budget = force ? maxGroups : 0;
    const clearOne = async ({ partition }: { readonly partition: number }) => {
      const args = { ...keysOf(environment, partition), closedMs: CLOSED_MS, most };
      const [, , count, ...ended] = await client.change("clear-partition", CLEAR, args);
      for (let i = 0; i + 1 < ended.length; i += 2) {
        forgetLater(client, environment, { id: ended[i] as string, entry: ended[i + 1] as string });
      }
      return { partition, count: Number(count) };
    };
    let left = partitionsOf(environment).map((partition) => ({ partition, count: 0 }));
    // Each partition is closed by every call, whatever the call has time for.
    do {
      budget -= left.length * most;
      left = (await eachOf(left, clearOne)).filter(({ count }) => count > 0);
    } while (left.length > 0 && budget > 0 && performance.now() <= end);
    return left.reduce((sum, { count }) => sum + count, 0);
  };

  return {
    async delete(name, force, by) {
      const environment = await environments.get(name);
      if (!force && (await environments.countUserGroups(environment)) > 0) throw new EnvironmentNotEmpty();
      const sendBy = performance.now() + EMPTY_MS / 3;
      if (!force && environment.deleteTime === undefined) await closeEmpty(environment);
      await mark(environment, by, force ? Number.POSITIVE_INFINITY : sendBy);
      await endApiTokens(environment, by);
      const left = await clear(environment, force);
      if (left > 0) return left;
      await mark(environment, by);
      // If this fails, the list has a path that leads to nothing, or lacks an environment made anew, which works all the same.
      await unlist(environment).catch(() => {});
      return 0;
    },
  };
}

/** The arguments of scripts for a partition: the key of its ids, the key that closes it, and the parts of that key. */
function keysOf(environment: Environment, partition: number) {
  const prefix = partitionPrefix(environment, partition);
  const { first } = teamIdsOf(environment, partition);
  return { key: prefix + KEY.ids, closed: `${prefix}${KEY.closed}${first}`, prefix, first };
}

/** Works on items, some at once. @returns the results in their order */
async function eachOf<T, R>(items: readonly T[], work: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = [];
  for await (const batch of inBatches(items, AT_ONCE, work)) results.push(...batch);
  return results;
}
