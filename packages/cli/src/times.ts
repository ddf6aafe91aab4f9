import { type Duration, durationFromMs, type Timestamp, timestampFromMs } from "@bufbuild/protobuf/wkt";
import { parseDuration } from "./durations.ts";
import { usageFailure } from "./failures.ts";

const TIME = /^(\d{4}-\d\d-(\d\d))(?:[T ](?!24)\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:\d\d))?$/i;

/**
 * Parses a time of RFC 3339, or a date for its beginning in UTC; undefined for anything else, also for a day that does
 * not exist: Date.parse takes February 30 for March 2.
 */
export function parseTime(text: string): Timestamp | undefined {
  const [, date, day] = TIME.exec(text) ?? [];
  if (new Date(`${date}T00:00:00Z`).getUTCDate() !== Number(day)) return undefined;
  const ms = Date.parse(text.replace(" ", "T"));
  return Number.isNaN(ms) ? undefined : timestampFromMs(ms);
}

/**
 * Parses the time of an option: a time of RFC 3339, a date for its beginning in UTC, or a duration from now.
 *
 * @param sign 1: the duration is ahead; -1: it is past @throws Failure that names the option
 */
export function timeOf(option: string, text: string, sign: 1 | -1): Timestamp {
  const duration = parseDuration(text);
  if (duration !== undefined) return timestampFromMs(Date.now() + sign * duration);
  const time = parseTime(text);
  if (time) return time;
  const ago = sign > 0 ? "from now" : "ago";
  throw usageFailure(
    `${option} must be a time such as 2027-01-31T12:00:00Z, a date that exists, or a duration ${ago} such as 30d`,
  );
}

/** A duration of an option as the API has it. @throws Failure that names the option */
export function ttlOf(option: string, text: string | undefined): Duration | undefined {
  if (text === undefined) return undefined;
  const ms = parseDuration(text);
  if (ms === undefined) throw usageFailure(`${option} must be a duration, such as 0s, 5m, 1h or 30d`);
  return durationFromMs(ms);
}
