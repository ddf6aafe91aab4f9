import {
  create,
  type DescMessage,
  fromBinary,
  fromJsonString,
  type Message,
  ScalarType,
  toBinary,
} from "@bufbuild/protobuf";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  BranchSchema,
  EditionSchema,
  FreeSchema,
  PresenceSchema,
} from "../../test/transport/gen/talk/v1/edition_pb.ts";
import { LegacySchema, RequiredSchema } from "../../test/transport/gen/talk/v1/legacy_pb.ts";
import { PlainSchema } from "../../test/transport/gen/talk/v1/plain_pb.ts";
import { TalkSchema } from "../../test/transport/gen/talk/v1/talk_pb.ts";
import { messages } from "../../test/transport/messages.ts";
import "../hardening.ts";
import { compilePlainBinaryDecoder, compilePlainJsonDecoder, type PlainDecoder } from "./fast-requests.ts";

const SCHEMAS: readonly DescMessage[] = [
  TalkSchema,
  PlainSchema,
  LegacySchema,
  RequiredSchema,
  EditionSchema,
  BranchSchema,
  FreeSchema,
  PresenceSchema,
];

const text = fc.oneof(
  fc.string({ maxLength: 20 }),
  fc.string({ unit: "binary", maxLength: 6 }),
  fc.string({ minLength: 120, maxLength: 140 }),
  fc.constantFrom("", "acme", "a\\b", 'a"b', "é", "__proto__"),
);

/** The fields that hold one text. */
const textsOf = ({ fields }: DescMessage) =>
  fields.filter(({ fieldKind, scalar }) => fieldKind === "scalar" && scalar === ScalarType.STRING);

/** JSON of a message of a type, and what is almost that. */
function jsonFor(desc: DescMessage): fc.Arbitrary<string> {
  const key = fc.oneof(
    { weight: 12, arbitrary: fc.constantFrom(...textsOf(desc).map((field) => field.jsonName)) },
    { weight: 2, arbitrary: fc.constantFrom(...desc.fields.map((field) => field.jsonName)) },
    fc.constantFrom(...desc.fields.map((field) => field.name), "__proto__", "constructor", "x"),
  );
  const value = fc.oneof(
    { weight: 5, arbitrary: text },
    fc.constantFrom(null, 1, true, {}, [], { a: "b" }, "2026-01-01T00:00:00Z"),
  );
  const pairs = fc.array(fc.tuple(key, value), { maxLength: 4 });
  const [name] = desc.fields.map((field) => field.jsonName);
  return fc.oneof(
    {
      weight: 5,
      arbitrary: pairs.map(
        (all) => `{${all.map(([name, of]) => `${JSON.stringify(name)}:${JSON.stringify(of)}`).join(",")}}`,
      ),
    },
    fc.constantFrom(`{"${name}": "a"}`, `{"${name}":"\\u0061"}`, "", "null", "[]", '"a"', "{", `{"${name}":"a"}x`),
  );
}

/** The wire format of a message of a type, and what is almost that. */
function bytesFor(desc: DescMessage): fc.Arbitrary<Uint8Array> {
  const whole = messages(desc, { texts: text }).map((message) => toBinary(desc, message));
  const field = fc.constantFrom(
    ...textsOf(desc)
      .map(({ number }) => (number << 3) | 2)
      .filter((tag) => tag <= 0x7f),
  );
  return fc.oneof(
    whole,
    fc.tuple(whole, fc.nat(), fc.nat(255)).map(([bytes, at, value]) => {
      const changed = bytes.slice(0, Math.max(1, at % (bytes.byteLength + 8)));
      if (changed.byteLength > 0) changed[at % changed.byteLength] = value;
      return changed;
    }),
    // A tag, a length, and what may be shorter or longer than that.
    fc
      .array(
        fc.tuple(fc.integer({ min: 0, max: 130 }), fc.integer({ min: 0, max: 4 }), fc.uint8Array({ maxLength: 4 })),
      )
      .map((parts) => new Uint8Array(parts.flatMap(([tag, length, content]) => [tag, length, ...content]))),
    fc.array(fc.tuple(field, text)).map((fields) =>
      Buffer.concat(
        fields.flatMap(([tag, content]) => {
          const encoded = Buffer.from(content).subarray(0, 127);
          return [Buffer.from([tag, encoded.byteLength]), encoded];
        }),
      ),
    ),
  );
}

const RUNS = 1500;

/** Decodes as protobuf-es does, or not at all; how often it did, of each type. */
function compare<T>(
  arbitrary: (desc: DescMessage) => fc.Arbitrary<T>,
  decoder: (desc: DescMessage) => (input: T) => Message | undefined,
  reference: (desc: DescMessage, input: T) => Message,
): number[] {
  return SCHEMAS.map((desc) => {
    let decoded = 0;
    const decode = decoder(desc);
    fc.assert(
      fc.property(arbitrary(desc), (input) => {
        const message = decode(input);
        if (message === undefined) return;
        decoded++;
        const expected = reference(desc, input);
        expect(message).toStrictEqual(expected);
        expect(Object.getPrototypeOf(message)).toBe(Object.getPrototypeOf(expected));
      }),
      { numRuns: RUNS, seed: 11 },
    );
    return decoded;
  });
}

/** Both sides of the line are tried of every type, but for those that have a required text. */
function expectBothSides(decoded: readonly number[]): void {
  const share = SCHEMAS.map(({ name }, i) => [name, (decoded[i] ?? 0) > RUNS / 20, (decoded[i] ?? 0) < RUNS]);
  expect(share).toEqual(SCHEMAS.map(({ name }) => [name, true, true]));
}

describe("the decoders of plain requests read what protobuf-es reads", () => {
  it("of JSON", () => {
    const onText = (decode: PlainDecoder) => (input: string) => decode(Buffer.from(input));
    expectBothSides(
      compare(
        jsonFor,
        (desc) => onText(compilePlainJsonDecoder(desc)),
        (desc, input) => fromJsonString(desc, input),
      ),
    );
  });

  it("of the binary format", () => {
    expectBothSides(compare(bytesFor, compilePlainBinaryDecoder, (desc, input) => fromBinary(desc, input)));
  });

  it("every time where all that is there is short and plain", () => {
    const plain = fc.dictionary(
      fc.constantFrom("text", "title", "script"),
      fc.stringMatching(/^[a-zA-Z0-9 ._:/-]{0,80}$/),
    );
    const decodeJson = compilePlainJsonDecoder(PlainSchema);
    const decodeBinary = compilePlainBinaryDecoder(PlainSchema);
    const check = (init: { readonly [name: string]: string }) => {
      const message = create(PlainSchema, init);
      expect(decodeJson(Buffer.from(JSON.stringify(init)))).toStrictEqual(message);
      // Fields with larger numbers begin with more than one byte.
      const { script: _, ...short } = message;
      const bytes = toBinary(PlainSchema, { ...short, script: "" });
      expect(decodeBinary(bytes)).toStrictEqual(fromBinary(PlainSchema, bytes));
    };
    fc.assert(fc.property(plain, check), { numRuns: 300, seed: 11 });
  });

  it("and leave what is of another kind to protobuf-es", () => {
    const undecoded = [
      { text: "é" },
      { text: "a".repeat(128) },
      { choice: { case: "chosenNumber", value: 1n } },
      { int32: 1 },
      { fields: { a: "b" } },
      { nested: create(PlainSchema) },
      { struct: { a: "b" } },
    ] as const;
    for (const init of undecoded) {
      const bytes = toBinary(PlainSchema, create(PlainSchema, init as never));
      expect(compilePlainBinaryDecoder(PlainSchema)(bytes)).toBeUndefined();
    }
    // A oneof must hold one value, which protobuf-es sees to.
    for (const json of [
      '{"chosenText":"a"}',
      '{"optionalBool":true}',
      '{"time":"2026-01-01T00:00:00Z"}',
      '{"mood":"MOOD_BAD"}',
    ]) {
      expect(compilePlainJsonDecoder(PlainSchema)(Buffer.from(json))).toBeUndefined();
    }
  });
});
