import type { Buffer } from "node:buffer";
import type { ImportedUserGroup } from "../../../../gen/usergroup/admin/v1/user_group_pb.ts";
import { BadRow } from "./group-row.ts";
import type { FileHeader } from "./header.ts";

/** A record of the input: a group, or the reason why it is not one. */
export interface GroupRecord {
  /** The number of its first line, counted from 1. */
  readonly line: number;
  /** The position of its end in the input: in bytes of a file, in groups of a service. */
  readonly end: number;
  /** The record as in the file, without the end of its last line; undefined when it is too long. */
  readonly raw: Buffer | undefined;
  readonly content: GroupContent;
}

/** The content of a record. */
export type GroupContent =
  /** `size` is about how many bytes the group takes of a request. */
  | { readonly group: ImportedUserGroup; readonly size: number; readonly problem?: undefined }
  | { readonly group?: undefined; readonly problem: string };

/** The format of a file. */
export type FileFormat = "jsonl" | "csv";

/** Groups that are read one after another. */
export interface GroupSource {
  readonly header: FileHeader;
  /** The lines that come before the groups in a file of the same groups. */
  readonly firstLines: readonly string[];
  readonly records: AsyncIterable<GroupRecord>;
}

/** How files are read. */
export interface ReadOptions {
  /** Whether unknown fields are ignored; otherwise groups with one are refused. */
  readonly ignoreUnknown: boolean;
}

/** The longest record, in bytes: far more than a group may have, even if everything in it is escaped. */
export const MAX_RECORD_BYTES = 4 * 1024 * 1024;

/** The reason that a longer record is refused with. */
export const TOO_LONG = `is longer than ${MAX_RECORD_BYTES / 1024 / 1024} MiB, so it is not repeated here`;

/** The content of a record, where reading the group may throw BadRow. */
export function contentOf(rowBytes: number, read: () => ImportedUserGroup): GroupContent {
  try {
    return { group: read(), size: rowBytes };
  } catch (error) {
    if (error instanceof BadRow) return { problem: error.message };
    throw error;
  }
}
