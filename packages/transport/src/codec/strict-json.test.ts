import { fromJson } from "@bufbuild/protobuf";
import { isFieldError } from "@bufbuild/protobuf/reflect";
import { DurationSchema, StructSchema, TimestampSchema } from "@bufbuild/protobuf/wkt";
import { describe, expect, it } from "vitest";
import { EditionSchema, FreeSchema } from "../../test/gen/talk/v1/edition_pb.ts";
import { PlainSchema } from "../../test/gen/talk/v1/plain_pb.ts";
import { TalkSchema } from "../../test/gen/talk/v1/talk_pb.ts";
import { hasLenientJson, requireStrictJson } from "./strict-json.ts";

const TIMES = [
  "2026-02-28T23:59:59Z",
  "2024-02-29T00:00:00.123456789+23:59",
  "2000-02-29T00:00:00Z",
  "0001-12-31T00:00:00Z",
];
const OTHER_DAYS = [
  ...["2026-02-30T00:00:00Z", "2026-02-29T00:00:00Z", "1900-02-29T00:00:00Z", "2026-04-31T23:59:59.5+01:00"],
  ...["2026-01-01T24:00:00Z", "2026-01-01T24:00:00.000Z"],
];

const HELD: readonly (readonly [string, (duration: unknown) => object])[] = [
  ["a field", (duration) => ({ duration })],
  ["a oneof", (duration) => ({ chosenDuration: duration })],
  ["a oneof with its proto name", (duration) => ({ chosen_duration: duration })],
  ["a list", (duration) => ({ durations: ["1s", duration] })],
  ["a map", (duration) => ({ durationByString: { a: "1s", b: duration } })],
  ["a map with its proto name", (duration) => ({ duration_by_string: { b: duration } })],
  ["a message", (duration) => ({ nested: { nested: { duration } } })],
  ["a list of messages", (duration) => ({ talks: [{}, { durations: [duration] }] })],
  ["a map of messages", (duration) => ({ talkByString: { a: { duration } } })],
  ["a message within another type", (duration) => ({ inner: { deeper: { talk: { duration } } } })],
];

const moods = (mood: string) => [
  ...[{ mood }, { optionalMood: mood }, { optional_mood: mood }, { chosenMood: mood }, { moods: ["MOOD_GOOD", mood] }],
  ...[{ moodByString: { a: mood } }, { moodByUint64: { "1": mood } }, { talkByString: { a: { nested: { mood } } } }],
];
const KNOWN_MOODS = [...["MOOD_UNSPECIFIED", "MOOD_FINE", "MOOD_WORST"].flatMap(moods), { mood: 1 }, { mood: null }];
const UNKNOWN_MOODS = moods("MOOD_OTHER");

describe.each(HELD)("requireStrictJson for a duration in %s", (_name, held) => {
  it.each(["1s", "0s", "-3.5s", "300.123456789s"])("accepts %s", (duration) => {
    requireStrictJson(TalkSchema, held(duration));
    fromJson(TalkSchema, held(duration) as never);
  });

  it.each(["300s of grace", "1s\n", "1ss", "1s1s", "1.0123456789s"])("refuses %j", (duration) => {
    expect(() => requireStrictJson(TalkSchema, held(duration))).toThrow(/Duration/);
  });

  it("ignores values that are not strings, because protobuf-es checks them", () => {
    for (const duration of [5, null, true, {}, []]) requireStrictJson(TalkSchema, held(duration));
  });
});

describe("requireStrictJson", () => {
  it.each(TIMES)("accepts the time %s", (time) => {
    for (const json of [{ time }, { times: [time] }]) {
      requireStrictJson(TalkSchema, json);
      fromJson(TalkSchema, json as never);
    }
  });

  it.each(OTHER_DAYS)("refuses the time %s, which protobuf-es reads as another day", (time) => {
    fromJson(TalkSchema, { time });
    for (const json of [{ time }, { times: [TIMES[0], time] }, { nested: { time } }])
      expect(() => requireStrictJson(TalkSchema, json)).toThrow(/Timestamp/);
  });

  it.each(UNKNOWN_MOODS)("refuses %j, which protobuf-es ignores", (json) => {
    fromJson(TalkSchema, json as never, { ignoreUnknownFields: true });
    expect(() => requireStrictJson(TalkSchema, json)).toThrow(
      'cannot decode enum talk.v1.Mood from JSON: "MOOD_OTHER"',
    );
  });

  it.each(KNOWN_MOODS)("accepts %j", (json) => {
    requireStrictJson(TalkSchema, json);
    fromJson(TalkSchema, json as never);
  });

  it("ignores null and the content of a Struct", () => {
    for (const json of [
      { nullValue: null },
      { nullValue: "NULL_VALUE" },
      { struct: { fields: { a: { nullValue: "x" } } } },
    ]) {
      requireStrictJson(TalkSchema, json);
      fromJson(TalkSchema, json as never);
    }
  });

  it("reports the invalid field", () => {
    const { time, durations } = TalkSchema.field;
    for (const [field, json] of [
      [time, { nested: { time: OTHER_DAYS[0] } }],
      [durations, { time: TIMES[0], durations: ["1s", "1s x"] }],
    ] as const) {
      const refused = captured(() => requireStrictJson(TalkSchema, json));
      expect(isFieldError(refused) && refused.field()).toBe(field);
    }
  });

  it("ignores errors that protobuf-es detects, and types without durations, times and enums", () => {
    for (const json of [null, 1, [], "1s x", { duration: 5 }, { durations: "1s x" }, { other: "1s x" }]) {
      requireStrictJson(TalkSchema, json);
    }
    requireStrictJson(PlainSchema, { struct: { duration: "1s x" } });
    requireStrictJson(TalkSchema, { struct: { duration: "1s x" }, value: "1s x", text: "1s x", wrappedString: "1s x" });
    expect([FreeSchema, EditionSchema].map(hasLenientJson)).toEqual([false, true]);
    expect(hasLenientJson(TalkSchema)).toBe(true);
  });

  it("checks a duration or a time that is the whole message", () => {
    const lenient = [DurationSchema, TimestampSchema, StructSchema].map(hasLenientJson);
    expect(lenient).toEqual([true, true, false]);
    requireStrictJson(DurationSchema, "1s");
    expect(() => requireStrictJson(DurationSchema, "1s x")).toThrow(/Duration/);
    expect(() => requireStrictJson(TimestampSchema, OTHER_DAYS[0])).toThrow(/Timestamp/);
  });

  it("checks each value only once, even in deeply nested messages", () => {
    let reads = 0;
    let json: object = {
      get duration() {
        reads++;
        return "1s";
      },
    };
    for (let depth = 0; depth < 10; depth++) json = { nested: json };
    requireStrictJson(TalkSchema, json);
    expect(reads).toBe(1);
  });
});

function captured(run: () => void): unknown {
  try {
    run();
  } catch (error) {
    return error;
  }
  return undefined;
}
