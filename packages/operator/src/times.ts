import { type Duration, type Timestamp, timestampDate, timestampFromMs } from "@bufbuild/protobuf/wkt";

const UNITS: { readonly [unit: string]: number } = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** Parses `500ms`, `5s`, `2m`, `1h` or `30d` to milliseconds. @returns undefined if the text has another format */
export function parseDuration(text: string): number | undefined {
  const [, digits = "", unit = ""] = /^(\d{1,9})(ms|[smhd])$/.exec(text.trim()) ?? [];
  const factor = UNITS[unit];
  return factor === undefined ? undefined : Number(digits) * factor;
}

/** Formats milliseconds in the format of `parseDuration`, in the largest unit that gives a whole number. */
export function durationText(ms: number): string {
  const [unit = "ms", factor = 1] = Object.entries(UNITS).findLast(([, each]) => ms > 0 && ms % each === 0) ?? [];
  return ms === 0 ? "0s" : `${ms / factor}${unit}`;
}

/** Returns a duration in milliseconds, with fractions. `durationMs` of protobuf-es rounds to whole milliseconds. */
export function exactMs({ seconds, nanos }: Duration): number {
  return Number(seconds) * 1000 + nanos / 1_000_000;
}

const TIME = /^(\d{4}-\d\d-(\d\d))(?:[T ](?!24)\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:\d\d))?$/i;

/**
 * Parses a time of RFC 3339. If the text is only a date, returns the start of this day in UTC.
 *
 * @returns undefined if the text has another format, or if the date does not exist
 */
export function parseTime(text: string): Timestamp | undefined {
  const [, date, day] = TIME.exec(text) ?? [];
  // Reject impossible dates: Date.parse converts February 30 to March 2.
  if (new Date(`${date}T00:00:00Z`).getUTCDate() !== Number(day)) return undefined;
  const ms = Date.parse(text.replace(" ", "T"));
  return Number.isNaN(ms) ? undefined : timestampFromMs(ms);
}

/**
 * Parses a time, a date, or a duration relative to now.
 *
 * @param sign 1 adds a duration to the current time. -1 subtracts the duration from the current time
 * @returns undefined for any other text
 */
export function parseWhen(text: string, sign: 1 | -1): Timestamp | undefined {
  const given = text.trim();
  const duration = parseDuration(given);
  return duration === undefined ? parseTime(given) : timestampFromMs(Date.now() + sign * duration);
}

/** Formats a time for users. The text is in UTC, and contains no fractions of a second. */
export function timeText(timestamp: Timestamp | undefined): string | undefined {
  return timestamp && timestampDate(timestamp).toISOString().replace("T", " ").replace(/\.\d+/, "");
}
