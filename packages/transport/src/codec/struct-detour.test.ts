import { isDeepStrictEqual } from "node:util";
import { create, type DescMessage, fromBinary, fromJson, type Message, toBinary } from "@bufbuild/protobuf";
import { BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import { StructSchema } from "@bufbuild/protobuf/wkt";
import fc from "fast-check";
import { describe, expect, it, vi } from "vitest";
import { EditionSchema, FreeSchema } from "../../test/gen/talk/v1/edition_pb.ts";
import { RequiredSchema } from "../../test/gen/talk/v1/legacy_pb.ts";
import { PlainSchema } from "../../test/gen/talk/v1/plain_pb.ts";
import { TalkSchema, TalkService } from "../../test/gen/talk/v1/talk_pb.ts";
import { messages } from "../../test/messages.ts";
import "../../test/no-proto-accessor.ts";
import { collectRpcs } from "../protocol/methods.ts";
import { binarySerialization } from "./serialization.ts";
import { structDetour } from "./struct-detour.ts";

const stray = fc.constantFrom(new Uint8Array(), tagged(99, 2, new Uint8Array([1])), tagged(98, 0, varint(300)));

const wire = fc
  .tuple(messages(EditionSchema, { texts: fc.constantFrom("", "a", "é", "__proto__"), depth: 4, maxFields: 5 }), stray)
  .map(([message, rest]) => Buffer.concat([toBinary(EditionSchema, message), rest]));

function varint(value: number): Uint8Array {
  return new BinaryWriter().uint32(value).finish();
}

function tagged(number: number, type: number, content: Uint8Array): Uint8Array {
  const length = type === WireType.LengthDelimited ? varint(content.byteLength) : new Uint8Array();
  return Buffer.concat([varint((number << 3) | type), length, content]);
}

function outcome(decode: () => Message): unknown {
  try {
    return decode();
  } catch (error) {
    return { failed: (error as Error).message };
  }
}

function decodeByDetour(desc: DescMessage, bytes: Uint8Array): Message {
  const detour = structDetour(desc);
  if (!detour) throw new TypeError("no detour");
  const message = fromBinary(detour.desc, bytes);
  detour.restore(message);
  return message;
}

describe("decoding Struct fields as messages", () => {
  it("returns the same message or error as protobuf-es", () => {
    let decoded = 0;
    let failed = 0;
    const anyBytes = fc.oneof(
      { weight: 9, arbitrary: wire },
      // Change one byte of a message. Before that, truncate most messages.
      fc.tuple(wire, fc.nat(), fc.nat(255)).map(([bytes, at, value]) => {
        const changed = bytes.slice(0, Math.max(1, at % (bytes.byteLength + 8)));
        if (changed.byteLength > 0) changed[at % changed.byteLength] = value;
        return changed;
      }),
    );
    fc.assert(
      fc.property(fc.array(anyBytes, { minLength: 1, maxLength: 3 }), (parts) => {
        const bytes = new Uint8Array(Buffer.concat(parts));
        const expected = outcome(() => fromBinary(EditionSchema, bytes));
        const actual = outcome(() => decodeByDetour(EditionSchema, bytes));
        if (Object.hasOwn(expected as object, "failed")) failed++;
        else decoded++;
        if (!isDeepStrictEqual(actual, expected)) expect(actual).toStrictEqual(expected);
      }),
      { numRuns: 1000, seed: 11 },
    );
    expect([decoded > 400, failed > 40]).toEqual([true, true]);
  });

  it("works because protobuf-es recognizes a Struct by its type name", () => {
    const desc = structDetour(EditionSchema)?.desc ?? EditionSchema;
    const bytes = toBinary(EditionSchema, create(EditionSchema, { plain: { a: 1 } }));
    const plainBy = (of: DescMessage) => (fromBinary(of, bytes) as unknown as { readonly plain: object }).plain;
    expect(plainBy(EditionSchema)).toEqual({ a: 1 });
    expect(plainBy(desc)).toMatchObject({ fields: { a: { kind: { case: "numberValue", value: 1 } } } });
  });

  it("applies only to types with a Struct field", () => {
    for (const desc of [EditionSchema, TalkSchema, PlainSchema]) expect(structDetour(desc)).toBeDefined();
    for (const desc of [FreeSchema, RequiredSchema, StructSchema]) expect(structDetour(desc)).toBeUndefined();
  });
});

const KEYS = 400;
const TIMES = 500;
const struct = Object.fromEntries(Array.from({ length: KEYS }, (_, i) => [`k${i}`, i]));

function entriesIn(work: () => void): number {
  let count = 0;
  const entries = Object.entries;
  const spy = vi.spyOn(Object, "entries").mockImplementation((object: object) => {
    const found = entries(object);
    count += found.length;
    return found;
  });
  work();
  spy.mockRestore();
  return count;
}

describe("large Struct fields that a request repeats", () => {
  const { say, tell } = TalkService.method;
  const rpcs = collectRpcs({ routes: (router) => void router.service(TalkService, {}) });

  it.each([
    [say, toBinary(TalkSchema, create(TalkSchema, { struct })), TalkSchema.field.struct.number],
    [tell, toBinary(PlainSchema, create(PlainSchema, { struct })), PlainSchema.field.struct.number],
  ] as const)("a request takes time in proportion to its bytes: $name", (desc, first, number) => {
    const { unary } = rpcs.find(({ unary }) => unary?.desc === desc) ?? {};
    const parse = unary && binarySerialization(unary.desc, unary.options).parse;
    const bytes = Buffer.concat([first, ...Array.from({ length: TIMES }, () => tagged(number, 2, new Uint8Array()))]);
    let message: unknown;
    const entries = entriesIn(() => {
      message = parse?.(bytes);
    });
    expect(message).toMatchObject({ struct });
    expect(entries).toBeLessThan(3 * KEYS + TIMES);
  });

  const structBytes = toBinary(StructSchema, fromJson(StructSchema, struct));
  const inner = tagged(2, 2, tagged(2, 2, tagged(1, 2, structBytes)));
  const again = tagged(2, 2, tagged(2, 2, tagged(1, 2, new Uint8Array())));
  const group = (content: Uint8Array) => Buffer.concat([tagged(13, 3, content), varint((13 << 3) | 4)]);
  it.each([
    ["in nested messages", inner, again],
    ["in a oneof", tagged(3, 2, structBytes), tagged(3, 2, new Uint8Array())],
    ["as a group", group(structBytes), group(new Uint8Array())],
    ["in a list", tagged(6, 2, tagged(1, 2, structBytes)), tagged(6, 2, tagged(1, 2, new Uint8Array()))],
  ] as const)("a message takes time in proportion to its bytes: %s", (_name, first, next) => {
    const bytes = Buffer.concat([first, ...Array.from({ length: TIMES }, () => next)]);
    const entries = entriesIn(() => decodeByDetour(EditionSchema, bytes));
    expect(entries).toBeLessThan(3 * KEYS + TIMES);
    expect(decodeByDetour(EditionSchema, bytes)).toStrictEqual(fromBinary(EditionSchema, bytes));
  });
});
