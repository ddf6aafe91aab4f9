import type { Environment } from "../../domain/environment.ts";
import { UserGroupNotFound } from "../../domain/errors.ts";
import { MAX_STORE_CALL_MS, type UserGroupAdminStore, type UserGroupRange } from "../../domain/store.ts";
import type { UserGroup, UserGroupInfo } from "../../domain/user-group.ts";
import { MAX_ENDED_VIEWERS, MAX_SESSION_MS } from "../../domain/viewer-session.ts";
import { changeEnvironment } from "../audit.ts";
import type { StoreClient } from "../connection/client.ts";
import { groupKey, idsKey } from "../keys.ts";
import { afterChange, isEmpty, readRecord, recordFromAnswer, type StoredRecord } from "../records.ts";
import { DELETE_GROUP, END_SESSIONS, LIST_IDS, RESUME_GROUP, SEARCH_IDS, SUSPEND_GROUP } from "../scripts.ts";
import {
  CLOCK_DIFFERENCE_MS,
  type GroupDeps,
  groupFromRecord,
  infoFromRecord,
  LISTED_FIELDS,
  listedFromRecord,
  recordsOf,
  targetArgs,
} from "./group-record.ts";
import { importGroups } from "./imports.ts";
import { rotate, viewerDigest } from "./user-groups.ts";

/**
 * The time for which Redis stores the revocation of a viewer's sessions, in milliseconds. The time covers the longest
 * session, the longest call, and the maximum clock difference. All revoked sessions have expired when this time ends.
 */
const NOTES_TTL_MS = MAX_SESSION_MS + MAX_STORE_CALL_MS + CLOCK_DIFFERENCE_MS;

/** The number of whole records that are read concurrently. This limits the memory for large records. */
const RECORDS_AT_ONCE = 25;

/**
 * The maximum size of a page of groups with all fields, in bytes. If a single group is larger, this group is alone on
 * its page.
 */
export const MAX_PAGE_BYTES = 1024 * 1024;

const LISTED_AT_ONCE = 250;

/**
 * The number of names that one script of a search reads. The script takes 0.5 ms, or 1.2 ms if the environment has a
 * million groups.
 */
const SEARCHED_AT_ONCE = 250;

const SEARCH_MS = 1000;

/**
 * Reads a page of ids. A search by name ends after `SEARCH_MS`, even if the page is still empty.
 *
 * @returns `now`: a time by Redis' clock, before the groups are read. `next`: the id after which the next page begins.
 *   Undefined on the last page
 */
export async function listIds(
  client: StoreClient,
  { number }: Environment,
  { after, prefix, size, nameContains = "" }: UserGroupRange,
): Promise<{ readonly ids: readonly string[]; readonly now: number; readonly next: string | undefined }> {
  const isSearch = nameContains !== "";
  const end = performance.now() + SEARCH_MS;
  const ids: string[] = [];
  for (let last = after; ; ) {
    const from = last !== "" ? `(${last}` : prefix === "" ? "-" : `[${prefix}`;
    const args = { ids: idsKey(number), from, idPrefix: prefix, contains: nameContains };
    const [, now, seen = "", ...found] = isSearch
      ? await client.ask("search-user-groups", SEARCH_IDS, { ...args, count: SEARCHED_AT_ONCE })
      : await client.ask("list-user-group-ids", LIST_IDS, { ...args, count: size });
    ids.push(...found);
    if (ids.length < size && seen !== "" && performance.now() < end) last = seen;
    else {
      const next = ids.length > size ? ids[size - 1] : seen || undefined;
      return { ids: ids.slice(0, size), now: Number(now), next };
    }
  }
}

export function redisUserGroupAdmin(deps: GroupDeps): UserGroupAdminStore {
  const { client, cipher, audit } = deps;

  return {
    async list(environment, range) {
      const { ids, now, next } = await listIds(client, environment, range);
      const items: UserGroupInfo[] = [];
      const reading = { operation: "list-user-groups", atOnce: LISTED_AT_ONCE, fields: LISTED_FIELDS };
      for await (const [id, record] of recordsOf(client, environment, ids, reading)) {
        // If the record is empty, the group was deleted after its id was read.
        if (!isEmpty(record)) items.push(listedFromRecord({ record, providedId: id, now }));
      }
      return { items, next };
    },

    async export(environment, range) {
      const { ids, now, next } = await listIds(client, environment, range);
      // Another call may change a group in the same millisecond, but after this read. The time of this change must be
      // later than the snapshot time.
      const snapshotTime = now - 1;
      const items: UserGroup[] = [];
      let bytes = 0;
      const reading = { operation: "export", atOnce: RECORDS_AT_ONCE };
      for await (const [id, record] of recordsOf(client, environment, ids, reading)) {
        const size = bytesOf(record);
        if (items.length > 0 && bytes + size > MAX_PAGE_BYTES)
          return { items, next: items.at(-1)?.providedId, snapshotTime };
        bytes += size;
        if (!isEmpty(record)) items.push(groupFromRecord({ record, providedId: id, now }, environment, cipher));
      }
      return { items, next, snapshotTime };
    },

    async lookUp(environment, providedId) {
      const key = groupKey(environment.number, providedId);
      const found = await readRecord(client, "look-up", key);
      if (isEmpty(found.record)) throw new UserGroupNotFound();
      return infoFromRecord({ ...found, providedId });
    },

    async delete(environment, target, etag, by) {
      const args = { ...targetArgs(target), etag };
      await changeEnvironment({ client, audit, environment, by }, "delete", DELETE_GROUP, args);
    },

    async revokeTokens(environment, providedId, { graceMs, requestId }, by) {
      const target = { by: "id", providedId } as const;
      const rotation = { target, graceMs, requestedGraceMs: graceMs || undefined, requestId };
      return infoFromRecord(await rotate(deps, environment, rotation, { by, isRevocation: true }));
    },

    async suspend(environment, providedId, { reason, message, until }, by) {
      const args = { id: providedId, reason, message, untilTime: until };
      const answer = await changeEnvironment({ client, audit, environment, by }, "suspend", SUSPEND_GROUP, args);
      return changedInfo(answer, providedId);
    },

    async resume(environment, providedId, by) {
      const change = { client, audit, environment, by };
      const answer = await changeEnvironment(change, "resume", RESUME_GROUP, { id: providedId });
      return changedInfo(answer, providedId);
    },

    async endSessions(environment, { providedId, viewerId }, by) {
      const viewer = viewerDigest(viewerId);
      const args = { id: providedId, viewer, maxViewers: MAX_ENDED_VIEWERS, notesTtlMs: NOTES_TTL_MS };
      await changeEnvironment({ client, audit, environment, by }, "end-sessions", END_SESSIONS, args);
    },

    import: (environment, groups, options, by) => importGroups(groups, { ...deps, ...options, environment, by }),
  };
}

function changedInfo(answer: readonly string[], providedId: string): UserGroupInfo {
  return afterChange(() => infoFromRecord({ ...recordFromAnswer(answer), providedId }));
}

function bytesOf(record: StoredRecord): number {
  return Object.values(record).reduce((sum, value = "") => sum + Buffer.byteLength(value), 0);
}
