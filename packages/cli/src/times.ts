import { type Duration, durationFromMs, type Timestamp, timestampFromMs } from "@bufbuild/protobuf/wkt";
import { parseDuration } from "./durations.ts";
import { usageFailure } from "./failures.ts";

const DATE = /^\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:\d\d))?$/;

/**
 * Parses the time of an option: a time of RFC 3339, a date for its beginning in UTC, or a duration from now.
 *
 * @param sign 1: the duration is ahead; -1: it is past @throws Failure that names the option
 */
export function timeOf(option: string, text: string, sign: 1 | -1): Timestamp {
  const duration = parseDuration(text);
  if (duration !== undefined) return timestampFromMs(Date.now() + sign * duration);
  const ms = DATE.test(text) ? Date.parse(text.replace(" ", "T")) : Number.NaN;
  if (!Number.isNaN(ms)) return timestampFromMs(ms);
  const ago = sign > 0 ? "from now" : "ago";
  throw usageFailure(`${option} must be a time such as 2027-01-31T12:00:00Z, a date, or a duration ${ago} such as 30d`);
}

/** A duration of an option as the API has it. @throws Failure that names the option */
export function ttlOf(option: string, text: string | undefined): Duration | undefined {
  if (text === undefined) return undefined;
  const ms = parseDuration(text);
  if (ms === undefined) throw usageFailure(`${option} must be a duration, such as 0s, 5m, 1h or 30d`);
  return durationFromMs(ms);
}
