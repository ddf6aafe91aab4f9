import { Buffer } from "node:buffer";

export interface Line {
  /** The line number. The first line has the number 1. */
  readonly number: number;
  /** The bytes of the line without the line ending. Empty if the line is too long. */
  readonly bytes: Buffer;
  /** The line ending: `\n`, `\r\n`, or empty at the end of the file. */
  readonly ending: string;
  readonly isTooLong: boolean;
}

const LF = 10;
const CR = 13;
const BOM = Buffer.from([0xef, 0xbb, 0xbf]);

/**
 * Reads a stream line by line. Buffers at most one chunk and one line. Skips a UTF-8 byte order mark.
 *
 * @param maxBytes the maximum length of a line. The content of a longer line is dropped
 */
export async function* linesOf(source: AsyncIterable<Uint8Array>, maxBytes: number): AsyncGenerator<Line, undefined> {
  let parts: Buffer[] = [];
  let [length, number] = [0, 0];
  const line = (end: "\n" | ""): Line => {
    let bytes = Buffer.concat(parts);
    const isCrLf = end !== "" && bytes.at(-1) === CR;
    const isTooLong = length - (isCrLf ? 1 : 0) > maxBytes;
    if (isCrLf) bytes = bytes.subarray(0, -1);
    if (number === 0 && bytes.subarray(0, 3).equals(BOM)) bytes = bytes.subarray(3);
    [parts, length, number] = [[], 0, number + 1];
    return { number, bytes: isTooLong ? Buffer.alloc(0) : bytes, ending: isCrLf ? "\r\n" : end, isTooLong };
  };
  for await (const value of source) {
    const chunk = Buffer.from(value.buffer, value.byteOffset, value.byteLength);
    for (let start = 0, end = 0; end !== -1 && start < chunk.length; start = end + 1) {
      end = chunk.indexOf(LF, start);
      const part = chunk.subarray(start, end === -1 ? chunk.length : end);
      length += part.length;
      if (length <= maxBytes + 1) parts.push(part);
      else parts = [];
      if (end !== -1) yield line("\n");
    }
  }
  if (length > 0) yield line("");
  return undefined;
}

const UTF8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Decodes UTF-8. @returns undefined if the bytes are not valid UTF-8 */
export function textOf(bytes: Uint8Array): string | undefined {
  try {
    return UTF8.decode(bytes);
  } catch {
    return undefined;
  }
}
