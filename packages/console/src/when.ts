import { type Timestamp, timestampFromMs } from "@bufbuild/protobuf/wkt";
import { NotRight } from "./session/failures.ts";
import { parseDuration } from "./words.ts";

const TIME = /^(\d{4}-\d\d-(\d\d))(?:[T ](?!24)\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:\d\d))?$/;

/**
 * Parses a time of RFC 3339, a date for its beginning in UTC, or a duration from now, as `ugs` takes them.
 *
 * @param sign 1: the duration is ahead; -1: it is past @throws NotRight that names the field
 */
export function parseWhen(field: string, text: string, sign: 1 | -1): Timestamp {
  const given = text.trim();
  const seconds = parseDuration(given);
  if (seconds !== undefined) return timestampFromMs(Date.now() + sign * seconds * 1000);
  const [, date, day] = TIME.exec(given) ?? [];
  // Date.parse takes February 30 for March 2.
  const exists = new Date(`${date}T00:00:00Z`).getUTCDate() === Number(day);
  const ms = exists ? Date.parse(given.replace(" ", "T")) : Number.NaN;
  if (!Number.isNaN(ms)) return timestampFromMs(ms);
  const from = sign > 0 ? "from now" : "ago";
  throw new NotRight(
    `${field} is a time such as 2027-01-31T12:00:00Z, a date that exists such as 2027-01-31, or a duration ${from} such as 30d.`,
  );
}
