import type { Environment } from "../../domain/environment.ts";
import { UserGroupNotFound } from "../../domain/errors.ts";
import type { UserGroupAdminStore, UserGroupRange } from "../../domain/store.ts";
import type { ListedUserGroup, UserGroup } from "../../domain/user-group.ts";
import { auditedScript } from "../audit/audit.ts";
import { KEY, locateGroup, partitionPrefix, partitionsOf } from "../keys.ts";
import { inBatches, isEmpty, READ, recordFromAnswer, recordsOf } from "../records.ts";
import type { StoreClient } from "../redis/client.ts";
import { readScript } from "../redis/script.ts";
import { CHANGED, ENTRY, FIELD, INDEXED } from "./fields.ts";
import { forgetLater } from "./foreign-tokens.ts";
import {
  type GroupDeps,
  groupFromRecord,
  infoFromRecord,
  LISTED_FIELDS,
  listedFromRecord,
  requireDone,
  updateTimeOf,
} from "./group-record.ts";
import { importGroups } from "./imports.ts";
import { rotate } from "./rotations.ts";
import { changeAt, FIND, searchFor } from "./targets.ts";
import { endSessions } from "./viewer-sessions.ts";

/** How many partitions are asked at once. */
const PARTITIONS_AT_ONCE = 256;

/** How many whole records are read at once. A record has up to some megabytes. */
const RECORDS_AT_ONCE = 25;

/** The maximum size of a page of whole groups, in bytes of their records. A page has at least one group. */
export const MAX_PAGE_BYTES = 1024 * 1024;

/** How many records are read at once of which only `LISTED_FIELDS` are wanted. */
const LISTED_AT_ONCE = 250;

/** A group as a partition lists it, at a time by Redis' clock. */
interface FoundId {
  readonly id: string;
  /** In UTF-8, as Redis orders them. JavaScript compares UTF-16 units, which differs where a surrogate meets a unit above it. */
  readonly bytes: Buffer;
  readonly now: number;
}

/**
 * Lists the ids of the groups of a partition in their order, so many at most: `from` as ZRANGEBYLEX has it, and all with
 * one beginning. Answers `found`, Redis' clock and the ids.
 */
export const LIST_IDS = readScript("ugListIds", {
  isAlone: true,
  args: ["from", "idPrefix", "count"],
  lua: `local ids = redis.call('ZRANGEBYLEX', key, from, '+', 'LIMIT', '0', count)
while #ids > 0 and string.sub(ids[#ids], 1, #idPrefix) ~= idPrefix do ids[#ids] = nil end
return {'found', stamp, spread(ids)}`,
});

/** The ids of a partition by `LIST_IDS`, and Redis' clock. */
export async function listIds(
  client: StoreClient,
  environment: Environment,
  partition: number,
  { after, prefix, size }: UserGroupRange,
) {
  const from = after !== "" ? `(${after}` : prefix === "" ? "-" : `[${prefix}`;
  const args = { key: partitionPrefix(environment, partition) + KEY.ids, from, idPrefix: prefix, count: size };
  const [, now, ...ids] = await client.ask("list-user-group-ids", LIST_IDS, args);
  return { now: Number(now), ids };
}

/**
 * Deletes the group that `FIND` finds, and what leads to it in its partition. Unless `updateTime` is empty, it must be that of
 * the group. What is kept for request ids expires by itself: it names the team id, which no other group gets.
 * Answers what `FIND` does; `stale`; or `done`, what `endedEntry` holds and the id.
 */
export const DELETE = auditedScript("ugDelete", {
  args: ["prefix", "old", "id", "updateTime"],
  lua: `${INDEXED}${ENTRY}${CHANGED}${FIND}
if redis.call('EXISTS', group) == 0 then return {'missing', stamp} end
if updateTime ~= '' and updateTime ~= last_change(group) then return {'stale', stamp} end
local graced = redis.call('HGET', group, '${FIELD.graceDigest}')
local entry = redis.call('HGET', group, '${FIELD.entry}')
local is_indexed = current and redis.call('HGET', key, indexed(current)) == id
if graced and redis.call('GET', prefix .. '${KEY.grace}' .. graced) ~= id then graced = nil end
redis.call('ZSCORE', prefix .. '${KEY.ids}', id)
redis.call('DEL', group)
if is_indexed then redis.call('HDEL', key, indexed(current)) end
if graced then redis.call('DEL', prefix .. '${KEY.grace}' .. graced) end
redis.call('ZREM', prefix .. '${KEY.ids}', id)
audit(id, '')
return {'done', stamp, current and entry and entry .. ':' .. current or '', id}`,
});

/** The administration of user groups in Redis. Which keys hold what: `keys.ts` and `fields.ts`. */
export function redisUserGroupAdmin(deps: GroupDeps): UserGroupAdminStore {
  const { client, cipher, audit } = deps;

  /**
   * A page of the ids of all partitions. Each partition is asked once, for a little more than its share of the page. When
   * one may have more than that, the page ends at the last group that it told of, because what follows is not known.
   */
  const findIds = async (environment: Environment, range: UserGroupRange) => {
    const share = shareOf(range.size, environment.partitions);
    const ids: FoundId[] = [];
    let end: FoundId | undefined;
    let snapshotTime = Number.POSITIVE_INFINITY;
    const ask = (partition: number) => listIds(client, environment, partition, { ...range, size: share });
    for await (const answers of inBatches(partitionsOf(environment), PARTITIONS_AT_ONCE, ask)) {
      for (const { now, ids: listed } of answers) {
        // What changes in the same millisecond is younger.
        snapshotTime = Math.min(snapshotTime, now - 1);
        const found = listed.map((id): FoundId => ({ id, bytes: Buffer.from(id), now }));
        for (const id of found) ids.push(id);
        const last = found.length < share ? undefined : found.at(-1);
        if (last && (end === undefined || compareIds(last, end) < 0)) end = last;
      }
    }
    const known = ids.filter((id) => end === undefined || compareIds(id, end) <= 0).sort(compareIds);
    const items = known.slice(0, range.size);
    return { items, next: end !== undefined || known.length > range.size ? items.at(-1)?.id : undefined, snapshotTime };
  };

  return {
    async list(environment, range) {
      const { items: ids, next } = await findIds(environment, range);
      const items: ListedUserGroup[] = [];
      const reading = { operation: "list-user-groups", atOnce: LISTED_AT_ONCE, fields: LISTED_FIELDS };
      const keyOf = ({ id }: FoundId) => locateGroup(environment, id).key;
      for await (const [{ id, now }, record] of recordsOf(client, ids, { ...reading, keyOf })) {
        // A listed id may have no group, when it was deleted meanwhile, or by hand.
        if (!isEmpty(record)) items.push(listedFromRecord(record, id, now));
      }
      return { items, next };
    },

    async export(environment, range) {
      const { items: ids, next, snapshotTime } = await findIds(environment, range);
      const items: UserGroup[] = [];
      let bytes = 0;
      const keyOf = ({ id }: FoundId) => locateGroup(environment, id).key;
      const reading = { operation: "export", atOnce: RECORDS_AT_ONCE, keyOf };
      for await (const [{ id }, record] of recordsOf(client, ids, reading)) {
        const size = bytesOf(record);
        if (items.length > 0 && bytes + size > MAX_PAGE_BYTES)
          return { items, next: items.at(-1)?.providedId, snapshotTime };
        bytes += size;
        // A group that was deleted since the ids were read is left out.
        if (!isEmpty(record)) items.push(groupFromRecord(record, environment, cipher, id));
      }
      return { items, next, snapshotTime };
    },

    async lookUp(environment, providedId) {
      const answer = await client.ask("look-up", READ, { key: locateGroup(environment, providedId).key });
      if (answer.length === 0) throw new UserGroupNotFound();
      return infoFromRecord(recordFromAnswer(answer), providedId, Number(answer[1]));
    },

    async delete(environment, target, etag, by) {
      const updateTime = updateTimeOf(etag);
      const answer = await changeAt(environment, searchFor(environment, target), (at) =>
        client.change("delete", DELETE, { ...at, updateTime, ...audit.ofPartition(at.prefix, by) }),
      );
      const [, , entry = "", id = ""] = requireDone("delete", answer);
      forgetLater(client, environment, { id, entry });
    },

    async revokeTokens(environment, providedId, { graceMs, requestId }, by) {
      const target = { by: "id", providedId } as const;
      const rotation = { target, graceMs, askedGraceMs: graceMs || undefined, requestId };
      const { record, now } = await rotate(deps, environment, rotation, { by, isRevocation: true });
      return infoFromRecord(record, providedId, now);
    },

    endSessions: (environment, whose, by) => endSessions(deps, environment, whose, by),

    import: (environment, groups, options, by) => importGroups(groups, { ...deps, ...options, environment, by }),
  };
}

/**
 * How many groups a partition is asked for: its share of the page, and six standard deviations more, so that hardly any
 * partition has more. Ids are spread evenly, so the number in one partition is Poisson distributed.
 */
function shareOf(size: number, partitions: number): number {
  const even = (size + 1) / partitions;
  return Math.min(size + 1, Math.ceil(even + 6 * Math.sqrt(even)) + 2);
}

/** About how many bytes a group takes in an answer. */
function bytesOf(record: Readonly<Record<string, string>>): number {
  return Object.values(record).reduce((sum, value) => sum + Buffer.byteLength(value), 0);
}

function compareIds(one: FoundId, other: FoundId): number {
  return Buffer.compare(one.bytes, other.bytes);
}
