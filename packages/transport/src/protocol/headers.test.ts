import { isDeepStrictEqual } from "node:util";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { HeaderRecord } from "../http-types.ts";
import { RecordHeaders, recordOf } from "./headers.ts";

const NAMES = ["a", "B", "x-y", "X-Y", "content-type", "set-cookie", "constructor", "toString", "__proto__", "x-bin"];
const name = fc.oneof(fc.constantFrom(...NAMES), fc.constantFrom("", " ", "a b", "ü", ":path"));
const value = fc.oneof(
  fc.constantFrom("", "1", " padded\t", "a, b", "\u00e4", "\u0000", "\n", "a\nb", "\u0100", "inner  space", "\u0001"),
  fc.string({ maxLength: 6 }),
);

type Operation = (headers: Headers) => unknown;

const operation: fc.Arbitrary<[string, Operation]> = fc.oneof(
  fc.tuple(name, value).map(([n, v]): [string, Operation] => [`set ${n} ${v}`, (headers) => headers.set(n, v)]),
  fc.tuple(name, value).map(([n, v]): [string, Operation] => [`append ${n} ${v}`, (headers) => headers.append(n, v)]),
  name.map((n): [string, Operation] => [`delete ${n}`, (headers) => headers.delete(n)]),
  name.map((n): [string, Operation] => [`get ${n}`, (headers) => headers.get(n)]),
  name.map((n): [string, Operation] => [`has ${n}`, (headers) => headers.has(n)]),
  fc.constantFrom<[string, Operation]>(
    ["entries", (headers) => [...headers.entries()]],
    ["keys", (headers) => [...headers.keys()]],
    ["values", (headers) => [...headers.values()]],
    ["iterate", (headers) => [...headers]],
    ["cookies", (headers) => headers.getSetCookie()],
    ["copy", (headers) => [...new Headers(headers)]],
    [
      "forEach",
      (headers) => {
        const seen: unknown[] = [];
        headers.forEach((v, n, parent) => {
          seen.push([n, v, parent === headers]);
        });
        return seen;
      },
    ],
  ),
);

function outcome(headers: Headers, run: Operation): unknown {
  try {
    return run(headers);
  } catch (error) {
    return (error as Error).constructor.name;
  }
}

const record: fc.Arbitrary<HeaderRecord> = fc
  .dictionary(
    fc.constantFrom("a", "b", "x-y", "content-type", "constructor", "x-bin"),
    fc.oneof(fc.constantFrom("1", "a, b", "", "\u00e4", " padded "), fc.constant(undefined)),
    { noNullPrototype: false },
  )
  .chain((fields) =>
    fc.constantFrom<HeaderRecord>(
      fields,
      { ...fields, ":path": "/x", ":method": "POST" },
      { ...fields, "set-cookie": ["a=1", "b=2"] },
    ),
  );

function realOf(fields: HeaderRecord): Headers {
  const real = new Headers();
  for (const [n, v] of Object.entries(fields)) {
    if (v === undefined || n.startsWith(":")) continue;
    for (const one of [v].flat()) real.append(n, String(one));
  }
  return real;
}

describe.each([true, false])("RecordHeaders, writable: %s", (writable) => {
  it("behaves like Headers", () => {
    fc.assert(
      fc.property(record, fc.array(operation, { maxLength: 12 }), (fields, operations) => {
        const [lean, real] = [new RecordHeaders({ ...fields }, writable), realOf(fields)];
        const reported = (headers: Headers) => [...operations.map(([, run]) => outcome(headers, run)), [...headers]];
        const [actual, expected] = [reported(lean), reported(real)];
        if (!isDeepStrictEqual(actual, expected)) expect(actual).toEqual(expected);
      }),
      { seed: 3, numRuns: 1000 },
    );
  });
});

describe("the record of RecordHeaders", () => {
  it("converts to the same Headers as RecordHeaders, without white space at the ends of values", () => {
    fc.assert(
      fc.property(record, fc.array(operation, { maxLength: 12 }), (fields, operations) => {
        const lean = new RecordHeaders({ ...fields }, true);
        for (const [, run] of operations) outcome(lean, run);
        const trimmed = [...lean].map(([n, v]) => [n, v.replace(/^[\t ]+|[\t ]+$/g, "")]);
        const again = [...realOf(recordOf(lean))];
        if (!isDeepStrictEqual(again, trimmed)) expect(again).toEqual(trimmed);
      }),
      { seed: 3, numRuns: 1000 },
    );
  });

  it("stays unchanged if RecordHeaders is not writable", () => {
    const fields = { a: "1" };
    const lean = new RecordHeaders(fields);
    lean.set("a", "2");
    lean.append("b", "3");
    lean.delete("a");
    expect(fields).toEqual({ a: "1" });
    expect([...lean]).toEqual([["b", "3"]]);
  });
});
