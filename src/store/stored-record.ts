import { RecordUnreadable } from "../domain/errors.ts";

/** A hash as Redis holds it, by the names of `fields.ts`. */
export type StoredRecord = Record<string, string | undefined>;

/** The record in an answer: fields and values in turn, behind values of another kind, of which a script has two. */
export function recordFromAnswer(answer: readonly string[], behind = 2): StoredRecord {
  const record: StoredRecord = {};
  for (let i = behind; i + 1 < answer.length; i += 2) record[answer[i] as string] = answer[i + 1];
  return record;
}

/** Whether nothing is stored under the key. */
export function isEmpty(record: StoredRecord): boolean {
  return Object.keys(record).length === 0;
}

/** The text of a field. @param what the record is, for the log. @throws RecordUnreadable */
export function textOf(record: StoredRecord, field: string, what = "a record"): string {
  const value = record[field];
  if (value === undefined) throw new RecordUnreadable(new Error(`${what} has no field ${field}`));
  return value;
}

/** The integer of a field. @param what the record is, for the log. @throws RecordUnreadable */
export function integerOf(record: StoredRecord, field: string, what = "a record"): number {
  const digits = textOf(record, field, what);
  const value = Number(digits);
  if (digits === "" || !Number.isSafeInteger(value)) {
    throw new RecordUnreadable(new Error(`the field ${field} of ${what} is not an integer`));
  }
  return value;
}

/** As `integerOf`; undefined when the field is missing. */
export function optionalIntegerOf(record: StoredRecord, field: string, what?: string): number | undefined {
  return record[field] === undefined ? undefined : integerOf(record, field, what);
}
