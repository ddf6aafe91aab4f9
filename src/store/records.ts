import { type ChangeOutcome, RecordUnreadable } from "../domain/errors.ts";
import type { StoreClient } from "./connection/client.ts";
import { READ } from "./scripts.ts";

export type StoredRecord = Record<string, string | undefined>;

export interface ReadRecord {
  readonly record: StoredRecord;
  /**
   * The time of the read by Redis' clock, in milliseconds since 1970. If the slot of the key was migrating, this is the
   * time by this worker's clock.
   */
  readonly now: number;
}

/** Converts a list of fields and values to a record. @param start the index of the first field. Default: 0 */
export function recordFromFields(fields: readonly string[], start = 0): StoredRecord {
  const record: StoredRecord = {};
  for (let i = start; i + 1 < fields.length; i += 2) record[fields[i] as string] = fields[i + 1];
  return record;
}

/** Returns the time and the record in a script's answer. @param start the index of the first field. Default: 2 */
export function recordFromAnswer(answer: readonly string[], start = 2): ReadRecord {
  return { record: recordFromFields(answer, start), now: Number(answer[1]) };
}

/** Reads a hash. The record is empty if the hash does not exist. @throws the errors of `StoreClient.ask` */
export async function readRecord(
  client: StoreClient,
  operation: string,
  key: string,
  outcome?: ChangeOutcome,
): Promise<ReadRecord> {
  return recordFromAnswer(await client.ask(operation, READ, { key }, { outcome }));
}

/** Returns whether a record has no fields. Such a record does not exist in Redis. */
export function isEmpty(record: StoredRecord): boolean {
  for (const _ in record) return false;
  return true;
}

/** Returns the text of a field. @param what the name of the record for the log. @throws RecordUnreadable */
export function textOf(record: StoredRecord, field: string, what = "a record"): string {
  const value = record[field];
  if (value === undefined) throw new RecordUnreadable(new Error(`${what} has no field ${field}`));
  return value;
}

/** Returns the integer of a field. @param what the name of the record for the log. @throws RecordUnreadable */
export function integerOf(record: StoredRecord, field: string, what = "a record"): number {
  const digits = textOf(record, field, what);
  const value = Number(digits);
  if (digits === "" || !Number.isSafeInteger(value)) {
    throw new RecordUnreadable(new Error(`the field ${field} of ${what} is not an integer`));
  }
  return value;
}

/** Returns the integer of a field. Returns undefined if the field is missing. @throws RecordUnreadable */
export function optionalIntegerOf(record: StoredRecord, field: string, what?: string): number | undefined {
  return record[field] === undefined ? undefined : integerOf(record, field, what);
}

/** Decodes a record after a change. @throws RecordUnreadable with the outcome `unknown` */
export function afterChange<T>(read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw error instanceof RecordUnreadable ? new RecordUnreadable(error.cause, "unknown") : error;
  }
}

/**
 * Processes items in batches, and yields the results of each batch. The items of a batch are processed concurrently. If
 * an item fails, the error is thrown after the other items of the batch have ended.
 */
export async function* inBatches<T, R>(
  items: readonly T[],
  atOnce: number,
  work: (item: T) => Promise<R>,
): AsyncGenerator<readonly R[]> {
  for (let start = 0; start < items.length; start += atOnce) {
    const batch = items.slice(start, start + atOnce).map(work);
    await Promise.allSettled(batch);
    yield await Promise.all(batch);
  }
}
