import { expect, it } from "vitest";
import { RecordUnreadable } from "../../domain/errors.ts";
import { EXPIRED } from "../../domain/user-group.ts";
import { needsClock, suspensionOf } from "./group-record.ts";

const SUSPENDED = { z: "5", w: "r", h: "m" };

it.each([
  ["no fields", {}, 10, undefined],
  ["a suspension", SUSPENDED, 0, { suspendTime: 5, until: undefined }],
  ["a suspension before its end", { ...SUSPENDED, v: "10" }, 9, { suspendTime: 5, until: 10 }],
  ["a suspension at its end", { ...SUSPENDED, v: "10" }, 10, undefined],
  ["a group before its expiry time", { e: "10" }, 9, undefined],
  ["a group at its expiry time", { e: "10" }, 10, { reason: EXPIRED, message: "", suspendTime: 10, until: undefined }],
  ["an expired group with a suspension", { ...SUSPENDED, e: "10" }, 11, { suspendTime: 5, until: undefined }],
  ["an expired group with a suspension that is over", { ...SUSPENDED, v: "10", e: "9" }, 10, { reason: EXPIRED }],
])("suspensionOf returns the state of %s", (_, record, now, expected) => {
  const suspension = suspensionOf(record, now);
  if (expected === undefined) expect(suspension).toBeUndefined();
  else expect(suspension).toMatchObject({ ...(!("reason" in expected) && { reason: "r", message: "m" }), ...expected });
});

it.each([
  [{}, 0, false],
  [SUSPENDED, 0, false],
  ...[-60_000, 60_000].map((difference) => [{ e: String(1e12 + difference) }, 1e12, false] as const),
  ...[-59_999, 0, 59_999].map((difference) => [{ e: String(1e12 + difference) }, 1e12, true] as const),
  [{ ...SUSPENDED, e: "0", v: String(1e12) }, 1e12, true],
] as const)("needsClock for %j at %i returns %s", (record, now, expected) => {
  expect(needsClock(record, now)).toBe(expected);
});

it.each([{ z: "5" }, { ...SUSPENDED, z: "x" }, { ...SUSPENDED, v: "" }, { e: "NaN" }])(
  "suspensionOf rejects the record %j",
  (record) => {
    expect(() => suspensionOf(record, 10)).toThrow(RecordUnreadable);
  },
);
