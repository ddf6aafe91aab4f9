import type { Buffer } from "node:buffer";
import type { ImportedUserGroup } from "../../../../gen/usergroup/admin/v1/user_group_pb.ts";
import { BadRow } from "./group-row.ts";
import type { FileHeader } from "./header.ts";

/** A record of what is imported: a group, or the reason why it is none. */
export interface GroupRecord {
  /** Where it begins, counted from 1. */
  readonly line: number;
  /** How much of the input there is up to its end: bytes of a file, groups of a service. */
  readonly end: number;
  /** As it stands in the file, without the end of its last line; undefined: it is longer than it may be. */
  readonly raw: Buffer | undefined;
  readonly content: GroupContent;
}

/** What a record holds. */
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
  /** Whether fields that groups do not have are left out; otherwise groups that have one are refused. */
  readonly ignoreUnknown: boolean;
}

/** The longest record, in bytes: far above what a group may have, whatever is escaped in it. */
export const MAX_RECORD_BYTES = 4 * 1024 * 1024;

/** Why a longer one is refused. */
export const TOO_LONG = `is longer than ${MAX_RECORD_BYTES / 1024 / 1024} MiB, so it is not repeated here`;

/** What a record holds, where making the group of it may fail. */
export function contentOf(rowBytes: number, read: () => ImportedUserGroup): GroupContent {
  try {
    return { group: read(), size: rowBytes };
  } catch (error) {
    if (error instanceof BadRow) return { problem: error.message };
    throw error;
  }
}
