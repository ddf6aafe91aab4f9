import { expect, it } from "vitest";
import { Table, widthOf } from "./table.ts";

const COLUMNS = [
  { name: "ID", of: ([id]: readonly string[]) => id },
  { name: "NAME", of: ([, name]: readonly string[]) => name, isFree: true },
  { name: "WHEN", of: ([, , when]: readonly string[]) => when },
];

it("aligns columns by what a terminal shows", () => {
  expect(
    new Table(COLUMNS, undefined).lines([
      ["1", "\u6f22\u5b57", "now"],
      ["22", "e\u0301", ""],
    ]),
  ).toEqual(["ID  NAME  WHEN", "1   \u6f22\u5b57  now", "22  e\u0301     -"]);
});

it("cuts what people choose freely first, and then the widest, to the width of the terminal", () => {
  const rows = [["0123456789abcdef", "\u6f22".repeat(30), "2026-11-23"]];
  for (const width of [80, 50, 40, 30]) {
    const lines = new Table(COLUMNS, width).lines(rows);
    for (const line of lines) expect(widthOf(line)).toBeLessThanOrEqual(width);
    expect(lines[1]).toContain("\u2026");
    expect(lines[1]?.startsWith("0123456789abcdef") && lines[1].endsWith("2026-11-23")).toBe(width >= 40);
  }
});

it("keeps the widths of the first page for the next", () => {
  const table = new Table(COLUMNS, 80);
  expect(table.lines([["1", "name", "x"]])).toHaveLength(2);
  expect(table.lines([["2", "a longer one", "y"]])).toEqual(["2   a l\u2026  y"]);
});

it("shows nothing raw", () => {
  expect(new Table(COLUMNS, undefined).lines([["\u001b[2J", "\n", "\u202e"]])[1]).toBe("\\x1b[2J  \\x0a  \\u202e");
});
