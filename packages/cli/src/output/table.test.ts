import { expect, it } from "vitest";
import { cut, tableOf, widthOf } from "./table.ts";

const COLUMNS = [
  { name: "ID", of: ([id]: readonly string[]) => id },
  { name: "NAME", of: ([, name]: readonly string[]) => name, isFree: true },
  { name: "WHEN", of: ([, , when]: readonly string[]) => when },
];

it("a table aligns columns by the width that a terminal shows", () => {
  expect(
    tableOf(
      COLUMNS,
      undefined,
    )([
      ["1", "\u6f22\u5b57", "now"],
      ["22", "e\u0301", ""],
    ]),
  ).toEqual(["ID  NAME  WHEN", "1   \u6f22\u5b57  now", "22  e\u0301     -"]);
});

it("a table that is too wide for the terminal shortens names first, then the widest column", () => {
  const rows = [["0123456789abcdef", "\u6f22".repeat(30), "2026-11-23"]];
  for (const width of [80, 50, 40, 30]) {
    const lines = tableOf(COLUMNS, width)(rows);
    for (const line of lines) expect(widthOf(line)).toBeLessThanOrEqual(width);
    expect(lines[1]).toContain("\u2026");
    expect(lines[1]?.startsWith("0123456789abcdef") && lines[1].endsWith("2026-11-23")).toBe(width >= 40);
  }
});

it("a table shortens a text in the middle, and never splits a character", () => {
  expect(cut("customer-0001", 9)).toBe("cust\u20260001");
  expect(cut("customer-0001", 13)).toBe("customer-0001");
  // Each Han character takes two cells. A letter and the accent of this letter take one cell.
  expect(cut("\u6f22\u5b57\u6f22\u5b57", 7)).toBe("\u6f22\u2026\u6f22\u5b57");
  expect(cut("ne\u0301e\u0301e\u0301e\u0301n", 4)).toBe("ne\u0301\u2026n");
});

it("a table shortens the rows of a later page only if the rows do not fit the terminal", () => {
  const linesOf = tableOf(COLUMNS, 32);
  expect(linesOf([["1", "name", "x"]])).toHaveLength(2);
  expect(linesOf([["a-longer-id", "a longer one", "y"]])).toEqual(["a-longer-id  a longer one  y"]);
  expect(linesOf([["2", "a name of one too many characters", "z"]])).toEqual(["2            a name\u2026acters  z"]);
});

it("a table escapes control characters and invisible characters in cells", () => {
  expect(tableOf(COLUMNS, undefined)([["\u001b[2J", "\n", "\u202e"]])[1]).toBe("\\x1b[2J  \\x0a  \\u202e");
});
