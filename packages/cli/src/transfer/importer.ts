import type { ImportedUserGroup } from "../../../../gen/usergroup/admin/v1/user_group_pb.ts";
import { usageFailure } from "../failures.ts";
import type { GroupContent, GroupRecord, Groups } from "./records.ts";
import type { SeenIds } from "./seen-ids.ts";
import type { GroupResult, GroupSender } from "./sender.ts";

/** The most groups and bytes of a request. The service accepts 1 MiB. */
const CHUNK_GROUPS = 500;
const CHUNK_BYTES = 768 * 1024;

/** The number of requests in flight. Each id is sent once, so their order does not matter. */
const IN_FLIGHT = 4;

/** A processed record. */
export interface Done {
  readonly record: GroupRecord;
  /** Undefined: the record is not a group. */
  readonly providedId: string | undefined;
  readonly result: GroupResult;
}

/** Consecutive processed records. */
interface DoneChunk {
  readonly done: readonly Done[];
  /** The number of records so far, including skipped ones. */
  readonly records: number;
}

export interface ImportRecordsOptions {
  readonly sender: GroupSender;
  readonly seen: SeenIds;
  readonly signal: AbortSignal;
  /** The number of records that an earlier run has processed. */
  readonly skip: number;
  /** Whether the requests have a snapshot time. Groups with tokens need one. */
  readonly hasSnapshotTime: boolean;
}

/** A request in flight. */
interface Chunk {
  readonly records: readonly GroupRecord[];
  readonly count: number;
  readonly results: Promise<readonly GroupResult[]>;
}

/**
 * Imports the groups of a source with several requests in flight. It yields results in the order of the source, and reads no
 * more than the requests need. If a request fails, it yields the results before it first.
 *
 * @throws what the source or the sender throws
 */
export async function* importRecords(source: Groups, options: ImportRecordsOptions): AsyncGenerator<DoneChunk> {
  const flying: Chunk[] = [];
  const chunks = chunksOf(source, options)[Symbol.asyncIterator]();
  let failure: { readonly error: unknown } | undefined;
  let isOver = false;
  while (!isOver || flying.length > 0) {
    while (!isOver && flying.length < IN_FLIGHT) {
      try {
        options.signal.throwIfAborted();
        const { done, value } = await chunks.next();
        if (done) isOver = true;
        else flying.push(value);
      } catch (error) {
        // The records before the failure are still imported.
        failure = { error };
        isOver = true;
      }
    }
    const chunk = flying.shift();
    if (!chunk) break;
    const results = await chunk.results.catch(async (error: unknown) => {
      await Promise.allSettled(flying.map((each) => each.results));
      throw error;
    });
    yield { done: doneOf(chunk.records, results), records: chunk.count };
  }
  if (failure) throw failure.error;
}

/** Sends records in chunks. */
async function* chunksOf(source: Groups, options: ImportRecordsOptions): AsyncGenerator<Chunk> {
  let records: GroupRecord[] = [];
  let groups: ImportedUserGroup[] = [];
  let [bytes, count] = [0, 0];
  const send = (): Chunk => {
    const results = groups.length === 0 ? Promise.resolve([]) : options.sender.send(groups);
    // The caller awaits the results later, and handles their failure then.
    results.catch(() => {});
    const chunk = { records, count, results };
    [records, groups, bytes] = [[], [], 0];
    return chunk;
  };
  for await (const record of source.records) {
    const content = uniqueContent(record.content, options.seen);
    if (count < options.skip) {
      count += 1;
      continue;
    }
    const size = content.group ? content.size : 0;
    if (records.length === CHUNK_GROUPS || (groups.length > 0 && bytes + size > CHUNK_BYTES)) yield send();
    if (content.group?.token !== undefined && !options.hasSnapshotTime) {
      if (records.length > 0) yield send();
      throw usageFailure(
        `the group at line ${record.line} has a token, and the snapshot time is unknown`,
        "give --snapshot-time TIME: when the tokens were read, or earlier, such as 2026-01-31T08:00:00Z",
      );
    }
    count += 1;
    bytes += size;
    records.push({ ...record, content });
    if (content.group) groups.push(content.group);
  }
  if (records.length > 0) yield send();
}

/** Rejects a record whose id is not new. */
function uniqueContent(content: GroupContent, seen: SeenIds): GroupContent {
  if (!content.group || seen.add(content.group.providedId)) return content;
  return { problem: "provided_id: an earlier group has this id" };
}

function doneOf(records: readonly GroupRecord[], results: readonly GroupResult[]): Done[] {
  let sent = 0;
  return records.map((record): Done => {
    const { group, problem } = record.content;
    if (group) return { record, providedId: group.providedId, result: results[sent++] as GroupResult };
    return { record, providedId: undefined, result: { fate: "rejected", changedFields: [], reason: problem } };
  });
}
