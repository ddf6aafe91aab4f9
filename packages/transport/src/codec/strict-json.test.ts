import { fromJson } from "@bufbuild/protobuf";
import { DurationSchema, TimestampSchema } from "@bufbuild/protobuf/wkt";
import { describe, expect, it } from "vitest";
import { EditionSchema, FreeSchema } from "../../test/gen/talk/v1/edition_pb.ts";
import { PlainSchema } from "../../test/gen/talk/v1/plain_pb.ts";
import { TalkSchema } from "../../test/gen/talk/v1/talk_pb.ts";
import { hasLenientJson, requireStrictJson } from "./strict-json.ts";

/** A duration wherever a message can hold one, by either name of the field. */
const HELD: readonly (readonly [string, (duration: unknown) => object])[] = [
  ["a field", (duration) => ({ duration })],
  ["a oneof", (duration) => ({ chosenDuration: duration })],
  ["a oneof by its own name", (duration) => ({ chosen_duration: duration })],
  ["a list", (duration) => ({ durations: ["1s", duration] })],
  ["a map", (duration) => ({ durationByString: { a: "1s", b: duration } })],
  ["a map by its own name", (duration) => ({ duration_by_string: { b: duration } })],
  ["a message", (duration) => ({ nested: { nested: { duration } } })],
  ["a list of messages", (duration) => ({ talks: [{}, { durations: [duration] }] })],
  ["a map of messages", (duration) => ({ talkByString: { a: { duration } } })],
  ["another type that leads back", (duration) => ({ inner: { deeper: { talk: { duration } } } })],
];

describe.each(HELD)("strict JSON in %s", (_name, held) => {
  it.each(["1s", "0s", "-3.5s", "300.123456789s"])("takes the duration %s", (duration) => {
    requireStrictJson(TalkSchema, held(duration));
    fromJson(TalkSchema, held(duration) as never);
  });

  it.each(["300s of grace", "1s\n", "1ss", "1s1s", "1.0123456789s"])("refuses the duration %j", (duration) => {
    expect(() => requireStrictJson(TalkSchema, held(duration))).toThrow(/Duration/);
  });

  it("leaves to the decoder what is no text", () => {
    for (const duration of [5, null, true, {}, []]) requireStrictJson(TalkSchema, held(duration));
  });
});

describe("strict JSON", () => {
  it("leaves to the decoder what else is wrong, and types without durations", () => {
    for (const json of [null, 1, [], "1s x", { duration: 5 }, { durations: "1s x" }, { other: "1s x" }]) {
      requireStrictJson(TalkSchema, json);
    }
    requireStrictJson(PlainSchema, { struct: { duration: "1s x" } });
    requireStrictJson(TalkSchema, { struct: { duration: "1s x" }, value: "1s x", text: "1s x", wrappedString: "1s x" });
    for (const desc of [PlainSchema, EditionSchema, FreeSchema]) expect(hasLenientJson(desc)).toBe(false);
    expect(hasLenientJson(TalkSchema)).toBe(true);
  });

  it("knows a duration that is the whole message", () => {
    expect([hasLenientJson(DurationSchema), hasLenientJson(TimestampSchema)]).toEqual([true, false]);
    requireStrictJson(DurationSchema, "1s");
    expect(() => requireStrictJson(DurationSchema, "1s x")).toThrow(/Duration/);
  });

  it("looks at each value once, however deep it is", () => {
    let looks = 0;
    let json: object = {
      get duration() {
        looks++;
        return "1s";
      },
    };
    for (let depth = 0; depth < 10; depth++) json = { nested: json };
    requireStrictJson(TalkSchema, json);
    expect(looks).toBe(1);
  });
});
