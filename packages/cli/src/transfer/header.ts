import type { JsonObject } from "@bufbuild/protobuf";
import { isObject } from "./group-row.ts";

/*
 * The first line of an export says of when and of what it is. In JSON Lines it is an object that has `snapshot_time` and no
 * `provided_id`; in CSV it is `#ugs ` and the same object. Lines that begin with `#ugs ` are nowhere groups.
 */

/** What begins a line that holds no group. */
export const REMARK = "#ugs ";

/** What the first line of a file tells. */
export interface FileHeader {
  /** Of when the groups are, as RFC 3339 has it. */
  readonly snapshotTime?: string | undefined;
  /** The environment that the groups are of. */
  readonly environment?: string | undefined;
  /** What all ids begin with; empty: they are all groups of the environment. */
  readonly prefix?: string | undefined;
}

/** The file's first line as JSON. */
export function headerText({ snapshotTime = "", environment = "", prefix = "" }: FileHeader): string {
  return JSON.stringify({ snapshot_time: snapshotTime, environment, provided_id_prefix: prefix });
}

/** The header that a JSON value is; undefined: it is none. */
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
