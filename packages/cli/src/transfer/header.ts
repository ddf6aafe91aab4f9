import type { JsonObject } from "@bufbuild/protobuf";
import { isObject } from "../../../operator/src/fields.ts";

/**
 * The first line of an export says from when and what it is. In JSON Lines it is an object that has `snapshot_time` and
 * no `provided_id`; in CSV it is `#ugs ` and the same object. A line that begins with `#ugs ` is never a group.
 */

/** The beginning of a line that is not a group. */
export const REMARK = "#ugs ";

/** The first line of a file. */
export interface FileHeader {
  /** The time whose groups the file has, in RFC 3339. */
  readonly snapshotTime?: string | undefined;
  /** The environment that the groups are of. */
  readonly environment?: string | undefined;
  /** The prefix of all ids; empty: the file has all groups of the environment. */
  readonly prefix?: string | undefined;
}

/** The file's first line as JSON. */
export function headerText({ snapshotTime = "", environment = "", prefix = "" }: FileHeader): string {
  return JSON.stringify({ snapshot_time: snapshotTime, environment, provided_id_prefix: prefix });
}

/** The header in a JSON value; undefined when it is not a header. */
export function headerOf(value: unknown): FileHeader | undefined {
  if (!isObject(value) || !("snapshot_time" in value) || "provided_id" in value) return undefined;
  const text = (name: keyof typeof value & string) => {
    const field = (value as JsonObject)[name];
    return typeof field === "string" && field !== "" ? field : undefined;
  };
  return {
    snapshotTime: text("snapshot_time"),
    environment: text("environment"),
    prefix: text("provided_id_prefix") ?? "",
  };
}
