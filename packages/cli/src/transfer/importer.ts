import { usageFailure } from "../failures.ts";
import type { GroupRecord, GroupSource } from "./records.ts";
import type { SeenIds } from "./seen-ids.ts";
import { type GroupResult, type Sending, sendGroups } from "./sender.ts";

/** The limits of a request: `CHUNK_GROUPS` groups and `CHUNK_BYTES` bytes. The service accepts at most 1 MiB. */
const CHUNK_GROUPS = 500;
const CHUNK_BYTES = 768 * 1024;

/** The number of requests in flight. Requests may arrive in any order, because an import sends each id only once. */
const IN_FLIGHT = 4;

export interface Done {
  readonly record: GroupRecord;
  readonly result: GroupResult;
}

interface Chunk {
  readonly done: Promise<readonly Done[]>;
  /** The number of records of the source up to the end of the chunk, including skipped records. */
  readonly records: number;
}

interface ImportRecordsOptions extends Sending {
  readonly seen: SeenIds;
  readonly skip: number;
}

/**
 * Imports the groups of a source. Several requests are in flight at the same time. Yields results in the order of the
 * source. Reads a record only when a request needs the record. If a request fails, yields the results of all earlier
 * requests, and then throws the error.
 */
export async function* importRecords(source: GroupSource, options: ImportRecordsOptions) {
  const inFlight: Chunk[] = [];
  const next = async () => {
    const { done, records } = inFlight.shift() as Chunk;
    return { done: await done, records };
  };
  try {
    for await (const chunk of chunksOf(source, options)) {
      inFlight.push(chunk);
      if (inFlight.length === IN_FLIGHT) yield await next();
    }
    while (inFlight.length > 0) yield await next();
  } finally {
    await Promise.allSettled(inFlight.map(({ done }) => done));
  }
}

/** Sends the records of a source in chunks. If the source fails, the last chunk fails with the error of the source. */
async function* chunksOf(source: GroupSource, options: ImportRecordsOptions): AsyncGenerator<Chunk> {
  let records: GroupRecord[] = [];
  let [bytes, count] = [0, 0];
  const chunk = (done: Chunk["done"]): Chunk => {
    // The caller awaits this promise later. If the promise rejected earlier without a handler, the process would crash.
    done.catch(() => {});
    [records, bytes] = [[], 0];
    return { done, records: count };
  };
  try {
    for await (const given of source.records) {
      options.target.patience.signal.throwIfAborted();
      const record = uniqueRecord(given, options.seen);
      if (count >= options.skip) {
        const size = record.group ? (record.raw?.length ?? 0) : 0;
        if (records.length === CHUNK_GROUPS || (bytes > 0 && bytes + size > CHUNK_BYTES))
          yield chunk(send(records, options));
        if (record.group?.token !== undefined && !options.settings.snapshotTime)
          throw usageFailure(
            `the group at line ${record.line} has a token, and the snapshot time is unknown`,
            "give --snapshot-time TIME: the time at which the tokens were read, or an earlier time, such as 2026-01-31T08:00:00Z",
          );
        bytes += size;
        records.push(record);
      }
      count += 1;
    }
    if (records.length > 0) yield chunk(send(records, options));
  } catch (error) {
    // Import the records that were read before the failure.
    if (records.length > 0) yield chunk(send(records, options));
    yield chunk(Promise.reject(error));
  }
}

function uniqueRecord(record: GroupRecord, seen: SeenIds): GroupRecord {
  const { line, raw, group } = record;
  if (!group || seen.add(group.providedId)) return record;
  return { line, raw, problem: "provided_id: an earlier group has this id" };
}

async function send(records: readonly GroupRecord[], sending: Sending): Promise<readonly Done[]> {
  const groups = records.flatMap(({ group }) => group ?? []);
  const results = await sendGroups(groups, sending);
  return records.map((record): Done => {
    const { group, problem = "" } = record;
    if (group) return { record, result: results.get(group) as GroupResult };
    return { record, result: { fate: "rejected", changedFields: [], reason: problem } };
  });
}
