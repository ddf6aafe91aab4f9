import { expect, it } from "vitest";
import { type Line, linesOf, textOf } from "./lines.ts";

/** Splits bytes into lines. The bytes arrive in chunks of `size` bytes. */
async function linesIn(bytes: Buffer, size: number, maxBytes = 8) {
  async function* chunks() {
    for (let i = 0; i < bytes.length; i += size) yield bytes.subarray(i, i + size);
  }
  const lines: Line[] = [];
  for await (const line of linesOf(chunks(), maxBytes)) lines.push(line);
  return lines;
}

it.each([1, 2, 3, 7, 1000])("linesOf reads lines that arrive in chunks of %i bytes", async (size) => {
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

it("textOf returns undefined for invalid UTF-8", () => {
  expect(textOf(Buffer.from([0xff]))).toBeUndefined();
  expect(textOf(Buffer.from("é"))).toBe("é");
});
