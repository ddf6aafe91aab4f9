import fc from "fast-check";
import { faultOf, resolved, type Schema } from "./document.ts";

/** Strings that the service accepts, such as ids of existing groups, by the name of the field that can contain them. */
export type Known = { readonly [field: string]: readonly string[] };

const LETTERS = fc.constantFrom(..."abcxyzABC019-_.");

/**
 * Generates values that match a schema.
 *
 * @param name name of the field that the schema describes. If `known` has strings for this name, some of the generated
 * values are these strings
 */
export function validOf(schema: Schema, known: Known, name = ""): fc.Arbitrary<unknown> {
  const whole = resolved(schema);
  const { type, enum: values, items, properties, additionalProperties, anyOf } = whole;
  if (Object.keys(schema).length === 0) return jsonOf({ "x-exact-numbers": true });
  if (values) return fc.constantFrom(...values);
  if (anyOf) return fc.oneof(...anyOf.map((each) => validOf(each, known, name)));
  switch (type) {
    case "string":
      return textOf(whole, known[name] ?? []);
    case "integer":
      return integerOf(whole);
    case "boolean":
      return fc.boolean();
    case "null":
      return fc.constant(null);
    case "array":
      return fc.array(validOf(items ?? {}, known, name), { minLength: whole.minItems ?? 0, maxLength: 3 });
    default:
      if (properties) return objectOf(whole, known);
      return fc.dictionary(textOf({ minLength: 1, maxLength: 8 }, []), validOf(additionalProperties ?? {}, known), {
        maxKeys: 3,
      });
  }
}

function objectOf({ properties = {}, required = [], ...schema }: Schema, known: Known): fc.Arbitrary<unknown> {
  const fields = Object.fromEntries(
    Object.entries(properties).map(([name, field]) => [name, validOf(field, known, name)]),
  );
  const { "x-exactly-one-of": exactly, "x-at-most-one-of": atMost } = schema;
  const named = exactly ?? atMost;
  if (!named) return fc.record(fields, { requiredKeys: [...required] });
  return fc.constantFrom(...named, ...(atMost ? [undefined] : [])).chain((chosen) => {
    const kept = Object.entries(fields).filter(([name]) => name === chosen || !named.includes(name));
    const requiredKeys = chosen === undefined ? [...required] : [...required, chosen];
    return fc.record(Object.fromEntries(kept), { requiredKeys });
  });
}

function jsonOf(schema: Schema): fc.Arbitrary<unknown> {
  return fc.jsonValue({ maxDepth: 2 }).filter((value) => faultOf(schema, value) === undefined && !hasProto(value));
}

/** Returns whether a value contains the text `__proto__`. A parser of JSON may lose a key with this name. */
function hasProto(value: unknown): boolean {
  return JSON.stringify(value).includes("__proto__");
}

function textOf(schema: Schema & { readonly format?: string }, known: readonly string[]): fc.Arbitrary<string> {
  const { pattern = "", minLength = 0, maxLength = 24, format } = schema;
  if (format === "date-time") {
    const [min, max] = schema["x-in-future"] ? ["2028-01-01", "2030-01-01"] : ["2020-01-01", "2025-01-01"];
    return fc.date({ min: new Date(min), max: new Date(max), noInvalidDate: true }).map((date) => date.toISOString());
  }
  if (/s\$$/.test(pattern)) return fc.integer({ min: 60, max: 3600 }).map((seconds) => `${seconds}s`);
  if (pattern === "^[^_]*$") return fc.constantFrom("*", "name", "displayName", "name,mapping", "");
  const isClass = /^\^\[(?:[^\]\\]|\\.)+\](?:\*|\{1,\d+\})\$$/.test(pattern);
  const text =
    pattern === "" || isClass
      ? fc.string({ unit: LETTERS, minLength: Math.max(1, minLength), maxLength: Math.min(maxLength, 24) })
      : fc.stringMatching(new RegExp(pattern, "u"));
  const fitting = text.filter((each) => faultOf(schema, each) === undefined);
  return known.length === 0 ? fitting : fc.oneof(fitting, fc.constantFrom(...known));
}

/** Generates unusual values, most of which break rules. */
export const ODD: fc.Arbitrary<unknown> = fc.oneof(
  fc.constantFrom<unknown>(
    ...[null, true, false, 0, 1, 2, 5, -1, 1.5, 1e20, 1000, 1001, 3844, 3845, "", " ", "1", "1.0", "a", "*"],
    ...[
      "\u0000",
      "\u007f",
      "a\nb",
      "é",
      "\ud83d\ude00",
      "\ud800",
      "_",
      "-1s",
      "0s",
      "1s",
      "60s",
      "2592000s",
      "2592001s",
    ],
    ...["300s of grace", "0.1234567891s", "2026-02-28T00:00:00Z", "2026-02-30T00:00:00Z", "2026-01-01T24:00:00Z"],
    ...[
      "0000-01-01T00:00:00Z",
      "9999-12-31T23:59:59.999999999Z",
      "2029-01-01T00:00:00+01:00",
      "2026-01-01",
      "ROLE_ADMIN",
    ],
    ...[
      "ROLE_UNSPECIFIED",
      "ROLE_NONE",
      "API_ENVIRONMENT_TAG_TESTING",
      [],
      {},
      ["a"],
      { a: 1 },
      { a: "b" },
      [{}],
      [null],
    ],
    { "": "a" },
    { a: null },
    { a: { b: [2 ** 53] } },
  ),
  fc.constantFrom(64, 65, 128, 129, 256, 257, 512, 513, 1024, 1025, 2048, 2049).map((length) => "é".repeat(length)),
  fc.constantFrom(31, 32, 33).map((depth) => {
    let value: unknown = "a";
    for (let i = 0; i < depth; i++) value = { a: value };
    return value;
  }),
  fc.constantFrom(65_536 - 8, 65_536 - 7).map((length) => ({ a: "a".repeat(length) })),
);

export function mutated(schema: Schema, value: fc.Arbitrary<unknown>): fc.Arbitrary<unknown> {
  const names = namesIn(schema);
  return fc
    .tuple(value, fc.nat(), ODD, fc.constantFrom("replace", "replace", "remove", "add"), fc.constantFrom(...names))
    .map(([whole, at, odd, how, name]) => {
      const copy = structuredClone(whole);
      const places = placesIn(copy);
      const [parent, key] = places[at % places.length] ?? [];
      if (how === "add" && typeof copy === "object" && copy !== null) Object.assign(copy, { [name]: odd });
      else if (parent === undefined || key === undefined) return odd;
      else if (how === "remove" && !Array.isArray(parent)) delete parent[key];
      else parent[key] = odd;
      return copy;
    });
}

type Place = readonly [parent: { [key: string]: unknown }, key: string];

/**
 * Returns the place of each nested value. A place is the object or array that contains the value, and the key of the
 * value in it.
 */
function placesIn(value: unknown): Place[] {
  if (typeof value !== "object" || value === null) return [];
  const parent = value as { [key: string]: unknown };
  return Object.keys(parent).flatMap((key): Place[] => [[parent, key], ...placesIn(parent[key])]);
}

/**
 * Generates integers near the minimum of the schema. If the integer is a page size, it is at most 100, even if the
 * schema allows 1000.
 */
function integerOf({ minimum = 0, maximum = 1000 }: Schema): fc.Arbitrary<number> {
  return fc.integer({ min: minimum, max: Math.min(maximum, Math.max(minimum, 0) + 100) });
}

/** Returns the field names of a schema, and one name that does not exist. */
function namesIn(schema: Schema): string[] {
  return [...Object.keys(resolved(schema).properties ?? {}), "unknown"];
}
