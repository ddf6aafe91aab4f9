import type { Buffer } from "node:buffer";
import type { ImportedUserGroup } from "../../../../gen/usergroup/admin/v1/user_group_pb.ts";
import { BadRow, groupOf, type Row } from "./group-row.ts";
import type { FileHeader } from "./header.ts";

/** A record of the input. */
export interface GroupRecord {
  /** Its first line, counted from 1. */
  readonly line: number;
  /** The record in the file, without its last line ending. Undefined: too long. */
  readonly raw: Buffer | undefined;
  readonly content: GroupContent;
}

/** A group, or the reason why the record is not a group. */
export type GroupContent =
  /** `size`: about its bytes in a request. */
  | { readonly group: ImportedUserGroup; readonly size: number; readonly problem?: undefined }
  | { readonly group?: undefined; readonly problem: string };

export type FileFormat = "jsonl" | "csv";

/** An input: a file, standard input or the hosted service. */
export interface GroupSource {
  readonly header: FileHeader;
  /** The lines before the groups. A file of rejects begins with them. */
  readonly firstLines: readonly string[];
  readonly records: AsyncIterable<GroupRecord>;
  readonly format: FileFormat;
  /** Identifies the content of a file. Undefined if the input is not a regular file. */
  readonly identity?: string | undefined;
  /** The part that was read, from 0 to 1. Undefined: unknown. */
  readonly fraction: () => number | undefined;
  /** The warnings after the last record. */
  readonly warnings?: () => readonly string[];
  /** Whether a file has changed since it was opened. */
  readonly hasChanged?: () => Promise<boolean>;
  readonly close?: () => Promise<void>;
}

export interface ReadOptions {
  /** Whether to ignore unknown fields. Otherwise groups with unknown fields are rejected. */
  readonly ignoreUnknown: boolean;
}

/** The longest record, in bytes: more than the largest group with everything escaped. */
export const MAX_RECORD_BYTES = 4 * 1024 * 1024;

export const TOO_LONG = `is longer than ${MAX_RECORD_BYTES / 1024 / 1024} MiB, so it is left out here`;

/** Reads the group of a record. @param read may throw BadRow */
export function contentOf(rowBytes: number, read: () => Row): GroupContent {
  try {
    return { group: groupOf(read()), size: rowBytes };
  } catch (error) {
    if (error instanceof BadRow) return { problem: error.message };
    throw error;
  }
}
