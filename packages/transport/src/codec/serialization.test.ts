import { isDeepStrictEqual } from "node:util";
import { create, type DescMessage, fromBinary, fromJsonString, type Message, toBinary } from "@bufbuild/protobuf";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { EditionSchema, PresenceSchema } from "../../test/gen/talk/v1/edition_pb.ts";
import { LegacySchema, RequiredSchema } from "../../test/gen/talk/v1/legacy_pb.ts";
import { PlainSchema } from "../../test/gen/talk/v1/plain_pb.ts";
import { type Talk, TalkSchema, TalkService } from "../../test/gen/talk/v1/talk_pb.ts";
import { collectRpcs } from "../protocol/methods.ts";
import {
  binarySerialization,
  compilePlainBinaryDecoder,
  compilePlainJsonDecoder,
  type PlainDecoder,
} from "./serialization.ts";

const SCHEMAS = [PlainSchema, TalkSchema, EditionSchema, PresenceSchema, LegacySchema, RequiredSchema];

const text = fc.oneof(
  fc.string({ maxLength: 20 }),
  fc.string({ unit: "binary", maxLength: 6 }),
  fc.string({ minLength: 120, maxLength: 140 }),
  fc.constantFrom("", "text", "a\\b", 'a"b', "é", "__proto__"),
);
const key = fc.oneof(
  { weight: 6, arbitrary: fc.constantFrom(...SCHEMAS.flatMap((desc) => desc.fields.map((field) => field.jsonName))) },
  fc.constantFrom("chosen_text", "__proto__", "constructor", "x"),
);
const value = fc.oneof(
  { weight: 5, arbitrary: text },
  fc.constantFrom(null, 1, true, {}, [], { a: "b" }, "2026-01-01T00:00:00Z"),
);
const jsonText = fc.oneof(
  {
    weight: 5,
    arbitrary: fc
      .array(fc.tuple(key, value), { maxLength: 4 })
      .map((pairs) => `{${pairs.map(([name, of]) => `${JSON.stringify(name)}:${JSON.stringify(of)}`).join(",")}}`),
  },
  fc.constantFrom('{"text": "a"}', '{"text":"\\u0061"}', "", "null", "[]", '"a"', "{", '{"text":"a"}x'),
);

const bytes = fc.oneof(
  fc
    .record({ text, title: fc.option(text, { nil: undefined }), chosen: text })
    .map(({ chosen, ...init }) =>
      toBinary(PlainSchema, create(PlainSchema, { ...init, choice: { case: "chosenText", value: chosen } } as never)),
    ),
  // Each field consists of a tag, a length, and content. The content may have another length than declared.
  fc
    .array(fc.tuple(fc.integer({ min: 0, max: 130 }), fc.integer({ min: 0, max: 4 }), fc.uint8Array({ maxLength: 4 })))
    .map((parts) => new Uint8Array(parts.flatMap(([tag, length, content]) => [tag, length, ...content]))),
  fc.array(fc.tuple(fc.constantFrom(0x0a, 0x12, 0x1a, 0x22, 0x6a), text)).map((fields) =>
    Buffer.concat(
      fields.flatMap(([tag, content]) => {
        const encoded = Buffer.from(content).subarray(0, 127);
        return [Buffer.from([tag, encoded.byteLength]), encoded];
      }),
    ),
  ),
);

/**
 * Requires that a decoder returns either undefined or the same message as protobuf-es. Returns the number of decoded
 * messages.
 */
function compare<T>(
  arbitrary: fc.Arbitrary<T>,
  decoder: (desc: DescMessage) => (input: T) => Message | undefined,
  reference: (desc: DescMessage, input: T) => Message,
): number {
  let decoded = 0;
  for (const desc of SCHEMAS) {
    const decode = decoder(desc);
    fc.assert(
      fc.property(arbitrary, (input) => {
        const message = decode(input);
        if (message === undefined) return;
        decoded++;
        const expected = reference(desc, input);
        if (!isDeepStrictEqual(message, expected)) expect(message).toStrictEqual(expected);
      }),
      { numRuns: 1000, seed: 11 },
    );
  }
  return decoded;
}

describe("decoders of plain requests", () => {
  it("the JSON decoder returns the same messages as protobuf-es", () => {
    const onText = (decode: PlainDecoder) => (input: string) => decode(Buffer.from(input));
    const decoded = compare(
      jsonText,
      (desc) => onText(compilePlainJsonDecoder(desc)),
      (desc, input) => fromJsonString(desc, input),
    );
    expect(decoded).toBeGreaterThan(500);
  });

  it("the binary decoder returns the same messages as protobuf-es", () => {
    const decoded = compare(bytes.map(Buffer.from), compilePlainBinaryDecoder, (desc, input) =>
      fromBinary(desc, input),
    );
    expect(decoded).toBeGreaterThan(500);
  });

  it("the decoders accept a plain request in JSON and in the binary format", () => {
    const plain = { text: "acme-4711", title: "Acme Incorporated" };
    const message = create(PlainSchema, plain);
    expect(compilePlainJsonDecoder(PlainSchema)(Buffer.from(JSON.stringify(plain)))).toEqual(message);
    expect(compilePlainBinaryDecoder(PlainSchema)(Buffer.from(toBinary(PlainSchema, message)))).toEqual(message);
  });
});

it("decodes a bytes field to a new Uint8Array, not to a view of the body", () => {
  const rpcs = collectRpcs({ routes: (router) => router.rpc(TalkService.method.say, (message) => message) });
  const body = Buffer.from(toBinary(TalkSchema, create(TalkSchema, { data: new Uint8Array([1, 2]) })));
  const [talk] = rpcs.map(({ unary }) => unary && (binarySerialization(unary.desc, unary.options).parse(body) as Talk));
  const data = talk?.data;
  expect(data).toEqual(new Uint8Array([1, 2]));
  expect(data).not.toBeInstanceOf(Buffer);
  const copy = data?.slice();
  body.fill(0);
  expect(copy).toEqual(new Uint8Array([1, 2]));
});
