import { create } from "@bufbuild/protobuf";
import { type Timestamp, timestampDate } from "@bufbuild/protobuf/wkt";
import { type EnvironmentName, EnvironmentNameSchema } from "../../../gen/usergroup/admin/v1/environment_pb.ts";
import { ApiEnvironmentTag } from "../../../gen/usergroup/v1/user_group_pb.ts";

/** The tags of environments, as people write them. */
export const TAGS = {
  Customer: ApiEnvironmentTag.CUSTOMER,
  Testing: ApiEnvironmentTag.TESTING,
} as const;

/** Formats the name of an environment as `NAME`, `NAME/Customer` or `NAME/Testing`. */
export function formatEnvironmentName({ name, tag }: Pick<EnvironmentName, "name" | "tag">): string {
  const found = Object.entries(TAGS).find(([, value]) => value === tag);
  return found ? `${name}/${found[0]}` : name;
}

/** Parses what `formatEnvironmentName` formats; undefined for anything else. */
export function parseEnvironmentName(text: string): EnvironmentName | undefined {
  const [, name = "", tag] = /^([A-Za-z0-9._-]{1,64})(?:\/(Customer|Testing))?$/.exec(text) ?? [];
  if (name === "") return undefined;
  return create(EnvironmentNameSchema, { name, tag: tag ? TAGS[tag as keyof typeof TAGS] : 0 });
}

/** A time as people read it, to the second and in UTC; a dash where there is none. */
export function timeText(timestamp: Timestamp | undefined, none = "–"): string {
  if (!timestamp) return none;
  return timestampDate(timestamp).toISOString().replace("T", " ").replace(/\.\d+/, "");
}

/** A number with its noun, such as `1 user group` and `1,204 user groups`. */
export function countText(count: number | bigint, noun: string): string {
  return `${count.toLocaleString("en")} ${noun}${Number(count) === 1 ? "" : "s"}`;
}

const UNIT_SECONDS: { readonly [unit: string]: number } = { s: 1, m: 60, h: 3600, d: 86_400 };

/** Formats a duration in whole seconds as `parseDuration` reads it, such as `90s`, `1h` or `30d`. */
export function durationText(seconds: number): string {
  const [unit = "s", factor = 1] =
    Object.entries(UNIT_SECONDS).findLast(([, each]) => seconds > 0 && seconds % each === 0) ?? [];
  return `${seconds / factor}${unit}`;
}

/** Parses `30s`, `5m`, `1h` or `30d` to whole seconds; undefined for anything else. */
export function parseDuration(text: string): number | undefined {
  const [, digits = "", unit = ""] = /^(\d{1,9})([smhd])$/.exec(text.trim()) ?? [];
  const factor = UNIT_SECONDS[unit];
  return factor === undefined ? undefined : Number(digits) * factor;
}
