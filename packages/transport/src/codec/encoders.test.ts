import { create, type DescField, type DescMessage, type Message, toBinary, toJsonString } from "@bufbuild/protobuf";
import { DurationSchema, StructSchema, TimestampSchema, ValueSchema } from "@bufbuild/protobuf/wkt";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { EditionSchema, PresenceSchema } from "../../test/gen/talk/v1/edition_pb.ts";
import { LegacySchema, RequiredSchema } from "../../test/gen/talk/v1/legacy_pb.ts";
import { Mood, PlainSchema } from "../../test/gen/talk/v1/plain_pb.ts";
import { TalkSchema } from "../../test/gen/talk/v1/talk_pb.ts";
import { fieldValues, messages, setField } from "../../test/messages.ts";
import "../../test/no-proto-accessor.ts";
import { compileBinaryEncoder } from "./binary-encoder.ts";
import { compileJsonEncoder } from "./json-encoder.ts";

type Encode = (message: Message) => string;

const FORMATS = [
  {
    format: "binary",
    compile: (desc: DescMessage): Encode | undefined => {
      const encode = compileBinaryEncoder(desc);
      return encode && ((message) => encode(message).toString("hex"));
    },
    reference: (desc: DescMessage, message: Message) => Buffer.from(toBinary(desc, message)).toString("hex"),
  },
  {
    format: "JSON",
    compile: (desc: DescMessage): Encode | undefined => compileJsonEncoder(desc),
    reference: (desc: DescMessage, message: Message) => toJsonString(desc, message),
  },
] as const;

const texts = fc.oneof(
  fc.string({ unit: "binary" }),
  fc.string({ minLength: 20, maxLength: 50, unit: "binary" }),
  fc.string({ maxLength: 2000 }),
  // The last two strings contain lone surrogates.
  fc.constantFrom("__proto__", "constructor", "toJSON", "\ud83d", "a\udc00b"),
);
/** Nanoseconds of Timestamps. The JSON encoder supports only whole milliseconds. */
const nanos = fc.constantFrom(0, 1_000_000, 999_000_000, 123_000_000);
const PLAIN = { texts, nanos };

function withOnly(field: DescField): DescMessage {
  return {
    ...field.parent,
    fields: [field],
    oneofs: field.oneof ? [field.oneof] : [],
    members: [field.oneof ?? field],
  };
}

const FIELDS = [TalkSchema, PlainSchema, LegacySchema, RequiredSchema, EditionSchema, PresenceSchema].flatMap(
  (desc) => desc.fields,
);
const nameOf = ({ parent, name }: DescField) => `${parent.name}.${name}`;

const PLAIN_FIELDS = namesOf(PlainSchema.fields);
const KNOWN: { readonly [format: string]: { readonly [message: string]: readonly string[] } } = {
  binary: {
    Talk: words(`text number fields script an_int32 an_int64 a_bool a_string mood null_value
      optional_int32 optional_int64 optional_bool optional_string optional_mood
      plains structs times durations
      chosen_string chosen_int32 chosen_int64 chosen_bool chosen_mood chosen_plain chosen_struct
      chosen_null chosen_duration one another
      time duration struct empty plain renamed constructor to_string last`),
    Plain: PLAIN_FIELDS,
    Legacy: words("text number long bool closed chosen_text chosen_closed"),
    Required: ["note"],
    Edition: words("plain chosen text structs free number tone implicit unchecked"),
    Presence: ["implicit", "explicit"],
  },
  JSON: {
    Talk: words(`text number fields script an_int32 an_int64 a_bool a_string mood
      optional_int32 optional_int64 optional_bool optional_string optional_mood
      chosen_string chosen_int32 chosen_int64 chosen_bool chosen_mood chosen_plain chosen_struct one another
      time struct plain renamed constructor to_string last`),
    Plain: PLAIN_FIELDS,
    Legacy: words("text number long bool closed chosen_text chosen_closed"),
    Required: ["note"],
    Edition: words("plain chosen text group free number tone implicit unchecked"),
    Presence: ["implicit", "explicit"],
  },
};

function words(text: string): string[] {
  return text.split(/\s+/);
}

function namesOf(fields: readonly DescField[]): string[] {
  return fields.map(({ name }) => name);
}

function outcome(encode: () => string): string {
  try {
    return encode();
  } catch {
    return "throws";
  }
}

describe.each(FORMATS)("the compiled encoder of $format", ({ format, compile, reference }) => {
  const known = FIELDS.filter((field) => compile(withOnly(field)) !== undefined);

  it("supports the fields in KNOWN, and leaves types with other fields to protobuf-es", () => {
    for (const [message, names] of Object.entries(KNOWN[format] ?? {})) {
      expect(namesOf(known.filter(({ parent }) => parent.name === message))).toEqual(names);
    }
    for (const desc of [TalkSchema, LegacySchema, RequiredSchema, EditionSchema, PresenceSchema]) {
      expect([desc.name, compile(desc)]).toEqual([desc.name, undefined]);
    }
    for (const desc of [StructSchema, ValueSchema]) expect(compile(desc)).toBeUndefined();
  });

  it("encodes each field like protobuf-es", () => {
    for (const field of known) {
      const desc = withOnly(field);
      const encode = compile(desc) as Encode;
      const check = (value: unknown) => {
        const message = create(field.parent);
        setField(message, field, value);
        const [fast, expected] = [encode(message), reference(desc, message)];
        if (fast !== expected) expect([nameOf(field), fast]).toEqual([nameOf(field), expected]);
      };
      fc.assert(fc.property(fieldValues(field, PLAIN), check), { numRuns: 40, seed: 7 });
    }
  });

  it("encodes whole messages like protobuf-es", () => {
    const encode = compile(PlainSchema) as Encode;
    const check = (message: Message) => {
      expect(encode(message)).toBe(reference(PlainSchema, message));
    };
    fc.assert(fc.property(messages(PlainSchema, { ...PLAIN, depth: 4, maxFields: 22 }), check), {
      numRuns: 1000,
      seed: 7,
    });
  });

  it("the encoder returns the same encoding as protobuf-es, or throws, for any field value", () => {
    let [written, failed] = [0, 0];
    for (const field of known) {
      const desc = withOnly(field);
      const encode = compile(desc) as Encode;
      for (const value of ODD_VALUES) {
        for (const held of asHeldBy(field, value)) {
          const message = create(field.parent);
          setField(message, field, held);
          const fast = outcome(() => encode(message));
          const expected = outcome(() => reference(desc, message));
          if (expected === "throws") failed++;
          if (fast === "throws") continue;
          written++;
          if (fast !== expected) expect([nameOf(field), held, fast]).toEqual([nameOf(field), held, expected]);
        }
      }
    }
    expect([written > 200, failed > 500]).toEqual([true, true]);
  });

  it("throws for a message of another type, and for a message without a value", () => {
    const encode = compile(PlainSchema) as Encode;
    expect(() => encode(create(TimestampSchema))).toThrow();
    expect(() => encode({ ...create(PlainSchema), text: undefined } as never)).toThrow();
    const { text: _, ...withoutText } = create(PlainSchema);
    expect(() => encode(withoutText as never)).toThrow();
  });
});

const ODD_VALUES: readonly unknown[] = [
  ...[undefined, null, true, false, "", "0", "-0", "5", "-5", "1.5", "x", "NaN", "true", "\ud83d", Symbol("s")],
  ...[0, -0, 1, -1, 1.5, 2 ** 31, -(2 ** 31) - 1, 2 ** 32, 2 ** 53, 2 ** 63, 2 ** 64, 1e21, NaN, Infinity, -Infinity],
  ...[0n, 1n, -1n, 2n ** 31n, 2n ** 32n, 2n ** 63n, 2n ** 63n - 1n, -(2n ** 63n), -(2n ** 63n) - 1n, 2n ** 64n],
  ...[2n ** 64n - 1n, -(2n ** 64n), 2n ** 65n + 5n, 2n ** 100n],
  ...["9223372036854775807", "9223372036854775808", "-1", "18446744073709551616", "constructor", "__proto__"],
  ...[[], {}, [1], ["a"], [null], { a: 1 }, { length: 0 }, { length: 1 }, () => "f", new Date(0), new Map([["a", 1]])],
  ...[new Uint8Array(), new Uint8Array([1]), Buffer.from("a"), Object("boxed"), Object(7), Mood.BEST, [[undefined]]],
  ...[{ a: undefined }, { a: Number.NaN }, { a: Infinity }, { a: 1n }, { a: [() => 1] }, { a: { toJSON: () => 1 } }],
  ...[{ a: new Date(0) }, { a: Object("boxed") }, { a: Symbol("s") }, { toJSON: "a" }, { toJSON: () => "a" }],
  create(TimestampSchema, { seconds: 1n, nanos: 1 }),
  create(TimestampSchema, { seconds: 1n, nanos: -1_000_000 }),
  create(TimestampSchema, { seconds: 1n, nanos: 1_000_000_000 }),
  create(TimestampSchema, { seconds: 1n, nanos: 2 ** 31 }),
  create(TimestampSchema, { seconds: 2n ** 64n }),
  create(TimestampSchema, { seconds: 253_402_300_799n, nanos: 999_000_000 }),
  create(TimestampSchema, { seconds: 253_402_300_800n }),
  create(TimestampSchema, { seconds: -62_135_596_801n }),
  create(TimestampSchema, { seconds: 0.5 as never }),
  create(TimestampSchema, { seconds: 5 as never }),
  create(TimestampSchema, { seconds: "5" as never }),
  create(DurationSchema, { seconds: 1n }),
  create(PlainSchema, { int64: 2n ** 63n }),
  create(PlainSchema, { text: 5 as never }),
  create(PlainSchema, { text: 0 as never }),
  create(PlainSchema, { nested: create(PlainSchema, { nested: create(DurationSchema) as never }) }),
  { ...create(PlainSchema), $unknown: [{ no: 99, wireType: 0, data: new Uint8Array([1]) }] },
  { ...create(PlainSchema), $typeName: "talk.v1.Other" },
  { ...create(PlainSchema), choice: { case: "chosenText", value: undefined } },
  { ...create(PlainSchema), choice: { case: "none", value: 1 } },
];

function asHeldBy({ fieldKind }: DescField, value: unknown): unknown[] {
  if (fieldKind === "list") return [value, [value]];
  if (fieldKind === "map") return [value, { a: value }, { __proto__: null, 7: value }];
  return [value];
}
