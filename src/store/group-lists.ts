import type { Environment } from "../domain/environment.ts";
import { RecordUnreadable } from "../domain/errors.ts";
import type { ExportedPage, Page, UserGroupRange } from "../domain/store.ts";
import type { ListedUserGroup, UserGroup } from "../domain/user-group.ts";
import { LISTED_FIELDS } from "./fields.ts";
import { type GroupParts, groupFromRecord, listedFromRecord } from "./group-record.ts";
import { groupKeyOf, idsKey, partitionPrefix } from "./keys.ts";
import { isEmpty, recordsOf } from "./records.ts";
import type { StoreClient } from "./redis/client.ts";
import { readScript } from "./script.ts";

/** How many partitions are asked at once. */
const PARTITIONS_AT_ONCE = 256;

/** How many whole records are read at once. A record has up to some megabytes. */
const RECORDS_AT_ONCE = 25;

/** The maximum size of a page of whole groups, in bytes of their records. A page has at least one group. */
const MAX_PAGE_BYTES = 1024 * 1024;

/** How many records are read at once of which only `LISTED_FIELDS` are wanted. */
const LISTED_AT_ONCE = 250;

/** A group as a partition lists it, at a time by Redis' clock. */
interface Entry {
  readonly id: string;
  readonly now: number;
}

/**
 * Lists the ids of the groups of a partition in their order, so many at most: `from` as ZRANGEBYLEX has it, and all with
 * one beginning. Answers `found`, Redis' clock and the ids.
 */
export const LIST_IDS = readScript("ugListIds", {
  isAlone: true,
  args: ["from", "idPrefix", "limit"],
  lua: `local to = idPrefix == '' and '+' or '(' .. idPrefix .. '\\255'
return {'found', stamp, spread(redis.call('ZRANGEBYLEX', key, from, to, 'LIMIT', '0', limit))}`,
});

/** As `UserGroupAdminStore.list`. */
export async function listGroups(
  { client }: Pick<GroupParts, "client">,
  environment: Environment,
  range: UserGroupRange,
): Promise<Page<ListedUserGroup>> {
  const { items: entries, next } = await entriesOf(client, environment, range);
  const items: ListedUserGroup[] = [];
  const keyOf = ({ id }: Entry) => groupKeyOf(environment, id);
  const reading = { operation: "list-user-groups", keyOf, atOnce: LISTED_AT_ONCE, fields: LISTED_FIELDS };
  for await (const [{ id, now }, record] of recordsOf(client, entries, reading)) {
    // A listed id may have no group, when it was deleted meanwhile, or by hand.
    if (!isEmpty(record)) items.push(listedFromRecord(record, id, now));
  }
  return { items, next };
}

/** As `UserGroupAdminStore.export`. */
export async function exportGroups(
  { client, cipher }: Pick<GroupParts, "client" | "cipher">,
  environment: Environment,
  range: UserGroupRange,
): Promise<ExportedPage> {
  const { items: entries, next, snapshotTime } = await entriesOf(client, environment, range);
  const items: UserGroup[] = [];
  let bytes = 0;
  const keyOf = ({ id }: Entry) => groupKeyOf(environment, id);
  const reading = { operation: "export", keyOf, atOnce: RECORDS_AT_ONCE };
  for await (const [{ id }, record] of recordsOf(client, entries, reading)) {
    const size = bytesOf(record);
    if (items.length > 0 && bytes + size > MAX_PAGE_BYTES)
      return { items, next: items.at(-1)?.providedId, snapshotTime };
    bytes += size;
    // A group that was deleted since the ids were read is left out.
    if (!isEmpty(record)) items.push(groupFromRecord(record, environment, cipher, id));
  }
  return { items, next, snapshotTime };
}

/**
 * A page of the ids of all partitions. Each partition is asked once, for a little more than its share of the page. When
 * one may have more than that, the page ends at the last group that it told of, because what follows is not known.
 */
async function entriesOf(
  client: StoreClient,
  environment: Environment,
  range: UserGroupRange,
): Promise<Page<Entry> & { readonly snapshotTime: number }> {
  const limit = limitOf(range.size, environment.partitions);
  const entries: Entry[] = [];
  let end: string | undefined;
  let snapshotTime = Number.POSITIVE_INFINITY;
  for (let first = 0; first < environment.partitions; first += PARTITIONS_AT_ONCE) {
    const count = Math.min(PARTITIONS_AT_ONCE, environment.partitions - first);
    const asked = Array.from({ length: count }, (_, i) =>
      idsOf(client, partitionPrefix(environment, first + i), range, limit),
    );
    for (const { now, found } of await Promise.all(asked)) {
      // What changes in the same millisecond is younger.
      snapshotTime = Math.min(snapshotTime, now - 1);
      for (const entry of found) entries.push(entry);
      const last = found.at(-1)?.id;
      if (found.length < limit || last === undefined) continue;
      if (end === undefined || compareIds(last, end) < 0) end = last;
    }
  }
  const known = entries.filter(({ id }) => end === undefined || compareIds(id, end) <= 0);
  known.sort((a, b) => compareIds(a.id, b.id));
  const items = known.slice(0, range.size);
  return { items, next: end !== undefined || known.length > range.size ? items.at(-1)?.id : undefined, snapshotTime };
}

async function idsOf(client: StoreClient, prefix: string, { after, prefix: idPrefix }: UserGroupRange, limit: number) {
  const from = after !== "" ? `(${after}` : idPrefix === "" ? "-" : `[${idPrefix}`;
  const args = { key: idsKey(prefix), from, idPrefix, limit };
  const [state, now, ...ids] = await client.ask("list-user-group-ids", LIST_IDS, args);
  if (state !== "found") throw new RecordUnreadable(new Error(`list-user-group-ids: ${state}`));
  return { now: Number(now), found: ids.map((id): Entry => ({ id, now: Number(now) })) };
}

/**
 * How many groups a partition is asked for: its share of the page, and six standard deviations more, so that hardly any
 * partition has more. Ids are spread evenly, so the number in one partition is Poisson distributed.
 */
function limitOf(size: number, partitions: number): number {
  const share = (size + 1) / partitions;
  return Math.min(size + 1, Math.ceil(share + 6 * Math.sqrt(share)) + 2);
}

/** About how many bytes a group takes in an answer. */
function bytesOf(record: Readonly<Record<string, string>>): number {
  return Object.values(record).reduce((sum, value) => sum + Buffer.byteLength(value), 0);
}

/**
 * Compares two ids by their UTF-8 bytes, as Redis orders them. JavaScript compares UTF-16 units, which differs where a
 * surrogate meets a unit above it.
 */
export function compareIds(a: string, b: string): number {
  const length = Math.min(a.length, b.length);
  for (let i = 0; i < length; i++) {
    const [x, y] = [a.charCodeAt(i), b.charCodeAt(i)];
    if (x !== y) return rank(x) - rank(y);
  }
  return a.length - b.length;
}

/** The order of a UTF-16 unit: surrogates, which stand for the characters above all others, come last. */
function rank(unit: number): number {
  return unit >= 0xd800 && unit <= 0xdfff ? unit + 0x10000 : unit;
}
