import { expect, it } from "vitest";
import { type Line, LineReader, textOf } from "./lines.ts";

/** The lines of bytes that come in chunks of a size. */
async function linesIn(bytes: Buffer, size: number, maxBytes = 8): Promise<Line[]> {
  async function* chunks() {
    for (let i = 0; i < bytes.length; i += size) yield bytes.subarray(i, i + size);
  }
  const reader = new LineReader(chunks(), maxBytes);
  const lines: Line[] = [];
  for (let line = await reader.next(); line; line = await reader.next()) lines.push(line);
  return lines;
}

it.each([1, 2, 3, 7, 1000])("reads lines that come in chunks of %i bytes", async (size) => {
  const lines = await linesIn(Buffer.from("\ufeffa\r\n\nb\rc\n12345678\r\n123456789\nlast"), size);
  expect(lines.map(({ bytes, ending, isTooLong }) => [textOf(bytes), ending, isTooLong])).toEqual([
    ["a", "\r\n", false],
    ["", "\n", false],
    ["b\rc", "\n", false],
    ["12345678", "\r\n", false],
    ["", "\n", true],
    ["last", "", false],
  ]);
  expect(lines.map(({ number }) => number)).toEqual([1, 2, 3, 4, 5, 6]);
});

it("gives back lines in their order", async () => {
  async function* chunks() {
    yield Buffer.from("1\n2\n3\n4");
  }
  const reader = new LineReader(chunks(), 8);
  const [first, second] = [await reader.next(), await reader.next()] as [Line, Line];
  reader.unread([first, second]);
  const numbers = [];
  for (let line = await reader.next(); line; line = await reader.next()) numbers.push(line.number);
  expect(numbers).toEqual([1, 2, 3, 4]);
});

it("returns undefined for invalid UTF-8", () => {
  expect(textOf(Buffer.from([0xff]))).toBeUndefined();
  expect(textOf(Buffer.from("é"))).toBe("é");
});
