import { RecordUnreadable } from "../domain/errors.ts";

export type StoredRecord = Record<string, string | undefined>;

/**
 * Returns the record in an answer. The record has the form field, value, …
 *
 * @param start the index of the first field. Default: 2, after the outcome and the clock
 */
export function recordFromAnswer(answer: readonly string[], start = 2): StoredRecord {
  const record: StoredRecord = {};
  for (let i = start; i + 1 < answer.length; i += 2) record[answer[i] as string] = answer[i + 1];
  return record;
}

/** Returns whether a record has no fields. Redis has no key for a record that has no fields. */
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
 * Processes items in concurrent batches, and yields the results of each batch. If an item fails, the error is thrown
 * after the other items of the batch have ended.
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
