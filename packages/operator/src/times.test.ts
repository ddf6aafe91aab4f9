import { timestampMs } from "@bufbuild/protobuf/wkt";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { durationText, parseDuration, parseWhen } from "./times.ts";

beforeEach(() => void vi.useFakeTimers({ now: Date.UTC(2027, 0, 31) }));
afterEach(() => void vi.useRealTimers());

it("parseWhen parses a time, a date in UTC, and a duration from now or ago", () => {
  const ms = (text: string, sign: 1 | -1 = 1) => timestampMs(parseWhen(text, sign) ?? (undefined as never));
  expect(ms("2027-02-01T12:00:00+02:00")).toBe(Date.UTC(2027, 1, 1, 10));
  // The console and ugs show times in this format.
  expect(ms(" 2027-02-01 12:00:00Z ")).toBe(Date.UTC(2027, 1, 1, 12));
  expect(ms("2027-02-01")).toBe(Date.UTC(2027, 1, 1));
  expect(ms("1d")).toBe(Date.UTC(2027, 1, 1));
  expect(ms("1d", -1)).toBe(Date.UTC(2027, 0, 30));
});

it.each([
  ...["", "tomorrow", "2027-02-30x", "2027-13-01", "01.02.2027", "30", "2027-02-01T12:00:00"],
  ...["2027-02-30", "2027-02-29T00:00:00Z", "2027-04-31 12:00:00Z", "2027-02-28T24:00:00Z"],
])("parseWhen rejects the invalid time %j", (text) => {
  expect(parseWhen(text, 1)).toBeUndefined();
});

it.each(["0s", "90s", "1h", "30d", "500ms"])(
  "parseDuration parses %s, and durationText formats the result as the same text",
  (text) => {
    expect(durationText(parseDuration(text) ?? -1)).toBe(text);
  },
);
