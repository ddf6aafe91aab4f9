import type { Buffer } from "node:buffer";
import type { ImportedUserGroup } from "../../../../gen/usergroup/admin/v1/user_group_pb.ts";
import { BadRow, groupOf, type Row } from "./group-row.ts";
import type { FileHeader } from "./header.ts";

export interface GroupRecord {
  /** The number of the first line of the record. The first line of the input has the number 1. */
  readonly line: number;
  /** The bytes of the record without the line ending after it. Undefined if the record is too long. */
  readonly raw: Buffer | undefined;
  /** Undefined if the record is not a group. */
  readonly group?: ImportedUserGroup;
  readonly problem?: string;
}

export type FileFormat = "jsonl" | "csv";

/** The input of an import: a file, standard input, or the hosted service (Explo). */
export interface GroupSource {
  readonly header: FileHeader;
  /** The lines before the groups. A file of rejected groups begins with these lines. */
  readonly firstLines: readonly string[];
  readonly records: AsyncIterable<GroupRecord>;
  readonly format: FileFormat;
  /** Identifies the content of a file. Undefined if the input is not a regular file. */
  readonly identity?: string | undefined;
  /** Returns the part of the input that has been read, from 0 to 1. Returns undefined if the size is unknown. */
  readonly fraction: () => number | undefined;
  /** Returns the warnings about the input. Call this method after the last record. */
  readonly warnings?: () => readonly string[];
  /** Returns whether the file has changed since it was opened. */
  readonly hasChanged?: () => Promise<boolean>;
  readonly close?: () => Promise<void>;
}

export interface ReadOptions {
  /** Whether to ignore unknown fields. If false, a group with an unknown field is rejected. */
  readonly ignoreUnknown: boolean;
}

/** The maximum length of a record. The largest valid group is shorter, even if every character is escaped. */
export const MAX_RECORD_BYTES = 4 * 1024 * 1024;

export const TOO_LONG = `is longer than ${MAX_RECORD_BYTES / 1024 / 1024} MiB, so its content is omitted`;

/**
 * Converts a row to a group. If the row is not a valid group, returns the problem.
 *
 * @param read returns the row, or throws a BadRow whose message is the problem
 */
export function contentOf(read: () => Row): Pick<GroupRecord, "group" | "problem"> {
  try {
    return { group: groupOf(read()) };
  } catch (error) {
    if (error instanceof BadRow) return { problem: error.message };
    throw error;
  }
}
