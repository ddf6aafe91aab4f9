import { expect, it } from "vitest";
import { ELEMENTS, reverseRange } from "./embedded.ts";

const event = (id: string) => [id, ...Array.from({ length: ELEMENTS - 1 }, (_, i) => `${id}:${i}`)];

const IDS = ["5-1", "5-20", "6-3", "10-1", "10-2"];

it.each<[end: string, start: string, count: number, expected: readonly string[]]>([
  ["+", "0", 9, ["10-2", "10-1", "6-3", "5-20", "5-1"]],
  ["+", "0", 2, ["10-2", "10-1"]],
  ["10", "6", 9, ["10-2", "10-1", "6-3"]],
  ["9", "0", 9, ["6-3", "5-20", "5-1"]],
  ["(10-2", "6", 9, ["10-1", "6-3"]],
  ["5", "0", 9, ["5-20", "5-1"]],
  ["(5-20", "0", 9, ["5-1"]],
  ["(5-1", "0", 9, []],
  ["4", "0", 9, []],
  ["+", "11", 9, []],
])("a list is read as XREVRANGE reads a stream, from %s to %s, %i at most", (end, start, count, expected) => {
  const read = reverseRange(IDS.flatMap(event), end, start, count);
  expect(read.map(([id]) => id)).toEqual(expected);
  for (const [id, fields] of read) expect([id, ...fields]).toEqual(event(id));
});
