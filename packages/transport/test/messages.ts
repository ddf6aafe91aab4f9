import { create, type DescField, type DescMessage, fromJson, type MessageShape, ScalarType } from "@bufbuild/protobuf";
import {
  DurationSchema,
  FeatureSet_FieldPresence,
  FieldMaskSchema,
  isWrapperDesc,
  ListValueSchema,
  StructSchema,
  TimestampSchema,
  ValueSchema,
} from "@bufbuild/protobuf/wkt";
import fc from "fast-check";

export interface MessageOptions {
  /** The arbitrary for strings and map keys. Default: any text that JSON and UTF-8 can express. */
  readonly texts?: fc.Arbitrary<string>;
  /** The maximum nesting depth of messages. Default: 2. */
  readonly depth?: number;
  /** The maximum number of fields set in a message. Default: 6. */
  readonly maxFields?: number;
  /** The nanoseconds of Timestamps. Default: any. */
  readonly nanos?: fc.Arbitrary<number>;
}

const [INT64_MIN, INT64_MAX, UINT64_MAX] = [-(2n ** 63n), 2n ** 63n - 1n, 2n ** 64n - 1n];
const int32 = fc.oneof(fc.integer(), fc.integer({ min: -200, max: 200 }));
const uint32 = fc.oneof(fc.integer({ min: 0, max: 2 ** 32 - 1 }), fc.nat(200));
const int64 = fc.oneof(
  fc.bigInt(INT64_MIN, INT64_MAX),
  fc.bigInt(-200n, 200n),
  fc.constantFrom(INT64_MIN, INT64_MAX, 2n ** 32n, 2n ** 53n + 1n, -(2n ** 31n)),
);
const uint64 = fc.oneof(
  fc.bigInt(0n, UINT64_MAX),
  fc.bigInt(0n, 200n),
  fc.constantFrom(UINT64_MAX, INT64_MAX + 1n, 2n ** 32n - 1n),
);

const SCALARS: { readonly [type in ScalarType]: fc.Arbitrary<unknown> } = {
  [ScalarType.DOUBLE]: fc.double(),
  [ScalarType.FLOAT]: fc.float(),
  [ScalarType.INT32]: int32,
  [ScalarType.SINT32]: int32,
  [ScalarType.SFIXED32]: int32,
  [ScalarType.UINT32]: uint32,
  [ScalarType.FIXED32]: uint32,
  [ScalarType.INT64]: int64,
  [ScalarType.SINT64]: int64,
  [ScalarType.SFIXED64]: int64,
  [ScalarType.UINT64]: uint64,
  [ScalarType.FIXED64]: uint64,
  [ScalarType.BOOL]: fc.boolean(),
  [ScalarType.STRING]: fc.string({ unit: "grapheme", maxLength: 20 }),
  [ScalarType.BYTES]: fc.uint8Array({ maxLength: 20 }),
};

/** Generates messages that protobuf-es can encode. Together, the messages have every kind of field of the type. */
export function messages<D extends DescMessage>(
  desc: D,
  { depth = 2, ...options }: MessageOptions = {},
): fc.Arbitrary<MessageShape<D>> {
  return new Messages(options).of(desc, depth) as fc.Arbitrary<MessageShape<D>>;
}

export function fieldValues(field: DescField, { depth = 1, ...options }: MessageOptions = {}): fc.Arbitrary<unknown> {
  return new Messages(options).value(field, depth);
}

export function setField(message: object, { localName, oneof }: DescField, value: unknown): void {
  const fields = message as { [name: string]: unknown };
  if (oneof) fields[oneof.localName] = { case: localName, value };
  else fields[localName] = value;
}

class Messages {
  readonly #text: fc.Arbitrary<string>;
  readonly #maxFields: number;
  readonly #json: fc.Arbitrary<{ [key: string]: unknown }>;
  /** The generators for well-known types with a special JSON form. */
  readonly #wellKnown: { readonly [typeName: string]: fc.Arbitrary<object> };
  readonly #known = new Map<string, fc.Arbitrary<object>>();

  constructor({ texts, maxFields = 6, nanos = fc.nat(999_999_999) }: MessageOptions) {
    this.#text = texts ?? (SCALARS[ScalarType.STRING] as fc.Arbitrary<string>);
    this.#maxFields = maxFields;
    const value = fc.jsonValue({ maxDepth: 3, stringUnit: "grapheme" });
    const json = fc.dictionary(this.#text, value, { maxKeys: 3, noNullPrototype: true });
    this.#json = json;
    this.#wellKnown = {
      [TimestampSchema.typeName]: fc
        .tuple(fc.bigInt(-62_135_596_800n, 253_402_300_798n), nanos)
        .map(([seconds, rest]) => create(TimestampSchema, { seconds, nanos: rest })),
      [DurationSchema.typeName]: fc
        .tuple(fc.bigInt(0n, 315_576_000_000n), fc.nat(999_999_999), fc.boolean())
        .map(([seconds, rest, isNegative]) =>
          create(DurationSchema, isNegative ? { seconds: -seconds, nanos: -rest } : { seconds, nanos: rest }),
        ),
      [FieldMaskSchema.typeName]: fc
        .array(fc.constantFrom("a", "field_name", "a.b_c"), { maxLength: 3 })
        .map((paths) => create(FieldMaskSchema, { paths })),
      [StructSchema.typeName]: json.map((object) => fromJson(StructSchema, object as never)),
      [ValueSchema.typeName]: value.map((any) => fromJson(ValueSchema, any as never)),
      [ListValueSchema.typeName]: fc
        .array(value, { maxLength: 3 })
        .map((list) => fromJson(ListValueSchema, list as never)),
    };
  }

  of(desc: DescMessage, depth: number): fc.Arbitrary<object> {
    const wellKnown = this.#wellKnown[desc.typeName];
    if (wellKnown) return wellKnown;
    // An Any has a JSON form only if its type is registered.
    if (desc.typeName === "google.protobuf.Any") return fc.constant(create(desc));
    const key = `${depth} ${desc.typeName}`;
    const known = this.#known.get(key);
    if (known) return known;
    const fields = desc.fields.filter(
      (field) => depth > 0 || !field.message || this.#wellKnown[field.message.typeName],
    );
    const entries = fields.map((field) => this.value(field, depth - 1).map((value) => [field, value] as const));
    const required = entries.filter((_, i) => fields[i]?.presence === FeatureSet_FieldPresence.LEGACY_REQUIRED);
    const some =
      entries.length === 0 ? fc.constant([]) : fc.array(fc.oneof(...entries), { maxLength: this.#maxFields });
    const made = fc.tuple(fc.tuple(...required), some).map(([must, may]) => {
      const message = create(desc);
      for (const [field, value] of [...must, ...may]) setField(message, field, value);
      return message;
    });
    this.#known.set(key, made);
    return made;
  }

  value(field: DescField, depth: number): fc.Arbitrary<unknown> {
    const single = this.#single(field, depth);
    if (field.fieldKind === "list") return fc.array(single, { maxLength: 3 });
    if (field.fieldKind !== "map") return single;
    const key = field.mapKey === ScalarType.STRING ? this.#text : (SCALARS[field.mapKey] as fc.Arbitrary<unknown>);
    return fc
      .array(fc.tuple(key, single), { maxLength: 3 })
      .map((pairs) => Object.fromEntries(pairs.map(([name, value]) => [String(name), value])));
  }

  #single(field: DescField, depth: number): fc.Arbitrary<unknown> {
    if (field.scalar !== undefined) {
      const value = field.scalar === ScalarType.STRING ? this.#text : SCALARS[field.scalar];
      return "longAsString" in field && field.longAsString ? value.map(String) : value;
    }
    if (field.enum) {
      const numbers = fc.constantFrom(...field.enum.values.map((value) => value.number));
      return field.enum.open && field.enum.typeName !== "google.protobuf.NullValue"
        ? fc.oneof({ weight: 3, arbitrary: numbers }, int32)
        : numbers;
    }
    const { message } = field as { readonly message: DescMessage };
    // The value is a plain JSON object or the wrapped scalar, not a message.
    if (message.typeName === StructSchema.typeName) return this.#json;
    if (isWrapperDesc(message) && field.fieldKind === "message" && !field.oneof) {
      return this.#single(message.fields[0] as DescField, depth);
    }
    return this.of(message, Math.max(0, depth));
  }
}
