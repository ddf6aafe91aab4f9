import { isObject } from "../../../operator/src/fields.ts";
import { parsedJson } from "../json.ts";
import type { Line } from "./lines.ts";

/** Lines with this prefix are remarks. They contain no group. */
export const REMARK = "#ugs ";

/**
 * The first line of an export. In JSON Lines, this line is an object that has a field `snapshot_time` and no field
 * `provided_id`. In CSV, this line starts with `#ugs `, and the object follows on the same line.
 */
export interface FileHeader {
  /** The time at which the export read the groups, in RFC 3339. */
  readonly snapshotTime?: string | undefined;
  readonly environment?: string | undefined;
  /** The `--prefix` of the export. Empty if the file contains all groups of the environment. */
  readonly prefix?: string | undefined;
}

export function headerText({ snapshotTime = "", environment = "", prefix = "" }: FileHeader): string {
  return JSON.stringify({ snapshot_time: snapshotTime, environment, provided_id_prefix: prefix });
}

export function isSkipped({ bytes, isTooLong }: Line): boolean {
  if (bytes.toString("latin1", 0, REMARK.length) === REMARK) return true;
  return !isTooLong && bytes.every((byte) => byte === 32 || byte === 9);
}

/** Reads the header, and skips blank lines and remarks. @returns the header, its text, and the first line after it */
export async function readHeader(lines: AsyncIterator<Line, undefined>) {
  let header: FileHeader | undefined;
  const firstLines: string[] = [];
  let { value: first } = await lines.next();
  for (; first; first = (await lines.next()).value) {
    const text = first.bytes.toString();
    const found = header ? undefined : headerOf(parsedJson(text.startsWith(REMARK) ? text.slice(REMARK.length) : text));
    if (found) {
      header = found;
      firstLines.push(text);
    } else if (!isSkipped(first)) {
      break;
    }
  }
  return { header: header ?? {}, firstLines, first };
}

function headerOf(value: unknown): FileHeader | undefined {
  if (!isObject(value) || !("snapshot_time" in value) || "provided_id" in value) return undefined;
  const text = (name: string) => {
    const field = value[name];
    return typeof field === "string" && field !== "" ? field : undefined;
  };
  return { snapshotTime: text("snapshot_time"), prefix: text("provided_id_prefix") };
}
