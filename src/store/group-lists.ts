import type { Environment } from "../domain/environment.ts";
import { RecordUnreadable } from "../domain/errors.ts";
import type { ExportedPage, Page, UserGroupRange } from "../domain/store.ts";
import type { ListedUserGroup, UserGroup } from "../domain/user-group.ts";
import type { TokenCipher } from "./encryption.ts";
import { LISTED_FIELDS } from "./fields.ts";
import type { UserGroupsParts } from "./group-parts.ts";
import { groupFromRecord, listedFromRecord } from "./group-record.ts";
import { compareIds } from "./id-order.ts";
import { groupKeyOf, idsKey, partitionPrefix } from "./keys.ts";
import { type RecordReading, recordsOf } from "./pages.ts";
import type { StoreClient } from "./redis/client.ts";
import { isEmpty } from "./stored-record.ts";

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

/** Lists of user groups in order of their ids, from all partitions of an environment. */
export class GroupLists {
  readonly #client: StoreClient;
  readonly #cipher: TokenCipher;

  constructor({ client, cipher }: Pick<UserGroupsParts, "client" | "cipher">) {
    this.#client = client;
    this.#cipher = cipher;
  }

  async list(environment: Environment, range: UserGroupRange): Promise<Page<ListedUserGroup>> {
    const { items: entries, next } = await this.#entries(environment, range);
    const items: ListedUserGroup[] = [];
    const reading = { operation: "list-user-groups", atOnce: LISTED_AT_ONCE, fields: LISTED_FIELDS };
    for await (const [{ id, now }, record] of this.#records(environment, entries, reading)) {
      // A listed id may have no group, when it was deleted meanwhile, or by hand.
      if (!isEmpty(record)) items.push(listedFromRecord(record, id, now));
    }
    return { items, next };
  }

  async export(environment: Environment, range: UserGroupRange): Promise<ExportedPage> {
    const { items: entries, next, snapshotTime } = await this.#entries(environment, range);
    const items: UserGroup[] = [];
    let bytes = 0;
    const reading = { operation: "export", atOnce: RECORDS_AT_ONCE };
    for await (const [{ id }, record] of this.#records(environment, entries, reading)) {
      const size = bytesOf(record);
      if (items.length > 0 && bytes + size > MAX_PAGE_BYTES)
        return { items, next: items.at(-1)?.providedId, snapshotTime };
      bytes += size;
      // A group that was deleted since the ids were read is left out.
      if (!isEmpty(record)) items.push(groupFromRecord(record, environment, this.#cipher, id));
    }
    return { items, next, snapshotTime };
  }

  #records(environment: Environment, entries: readonly Entry[], reading: Omit<RecordReading<Entry>, "keyOf">) {
    return recordsOf(this.#client, entries, { ...reading, keyOf: ({ id }) => groupKeyOf(environment, id) });
  }

  /**
   * A page of the ids of all partitions. Each partition is asked once, for a little more than its share of the page.
   * When one may have more than that, the page ends at the last group that it told of, because what follows is not
   * known.
   */
  async #entries(environment: Environment, range: UserGroupRange): Promise<Page<Entry> & { snapshotTime: number }> {
    const limit = limitOf(range.size, environment.partitions);
    const entries: Entry[] = [];
    let end: string | undefined;
    let snapshotTime = Number.POSITIVE_INFINITY;
    for (let first = 0; first < environment.partitions; first += PARTITIONS_AT_ONCE) {
      const count = Math.min(PARTITIONS_AT_ONCE, environment.partitions - first);
      const asked = Array.from({ length: count }, (_, i) =>
        this.#ofPartition(partitionPrefix(environment, first + i), range, limit),
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

  async #ofPartition(prefix: string, range: UserGroupRange, limit: number) {
    const from = range.after !== "" ? `(${range.after}` : range.prefix === "" ? "-" : `[${range.prefix}`;
    const args = [idsKey(prefix), from, range.prefix, String(limit)] as const;
    const [state, now, ...ids] = await this.#client.run("list-user-group-ids", "ugListGroups", args);
    if (state !== "found") throw new RecordUnreadable(new Error(`list-user-group-ids: ${state}`));
    return { now: Number(now), found: ids.map((id): Entry => ({ id, now: Number(now) })) };
  }
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
