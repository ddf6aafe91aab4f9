import { Buffer } from "node:buffer";

/** A line of a file. */
export interface Line {
  /** Counted from 1. */
  readonly number: number;
  /** Without the line ending. Empty if the line is too long. */
  readonly bytes: Buffer;
  /** `\n`, `\r\n`, or empty at the end of the file. */
  readonly ending: string;
  readonly isTooLong: boolean;
}

const LF = 10;
const CR = 13;
const BOM = Buffer.from([0xef, 0xbb, 0xbf]);

/** Reads a stream line by line. It buffers one chunk and one line, and skips a byte order mark of UTF-8. */
export class LineReader {
  readonly #source: AsyncIterator<Uint8Array>;
  readonly #maxBytes: number;
  readonly #unread: Line[] = [];
  #chunk: Buffer = Buffer.alloc(0);
  #position = 0;
  #number = 0;

  /** @param maxBytes the longest line. It drops the content of longer ones */
  constructor(source: AsyncIterable<Uint8Array>, maxBytes: number) {
    this.#source = source[Symbol.asyncIterator]();
    this.#maxBytes = maxBytes;
  }

  /** Reads the next line. @returns undefined at the end @throws the errors of the stream */
  async next(): Promise<Line | undefined> {
    const unread = this.#unread.pop();
    if (unread) return unread;
    const parts: Buffer[] = [];
    let length = 0;
    for (;;) {
      if (this.#position === this.#chunk.length && !(await this.#read())) {
        if (length === 0 && parts.length === 0) return undefined;
        return this.#line(parts, length, "");
      }
      const found = this.#chunk.indexOf(LF, this.#position);
      const stop = found === -1 ? this.#chunk.length : found;
      const part = this.#chunk.subarray(this.#position, stop);
      length += part.length;
      // The bytes of a line that is too long are only counted.
      if (length <= this.#maxBytes + 1) parts.push(part);
      else parts.length = 0;
      this.#position = found === -1 ? stop : stop + 1;
      if (found !== -1) return this.#line(parts, length, "\n");
    }
  }

  /** Puts lines back, so that `next` returns them again. */
  unread(lines: readonly Line[]): void {
    this.#unread.push(...lines.toReversed());
  }

  async #read(): Promise<boolean> {
    for (;;) {
      const { done, value } = await this.#source.next();
      if (done) return false;
      this.#chunk = Buffer.from(value.buffer, value.byteOffset, value.byteLength);
      this.#position = 0;
      if (value.length > 0) return true;
    }
  }

  #line(parts: readonly Buffer[], length: number, ending: string): Line {
    let bytes = parts.length === 1 ? (parts[0] as Buffer) : Buffer.concat(parts);
    this.#number += 1;
    const isCrLf = ending !== "" && bytes.at(-1) === CR;
    if (isCrLf) bytes = bytes.subarray(0, -1);
    if (this.#number === 1 && bytes.subarray(0, 3).equals(BOM)) bytes = bytes.subarray(3);
    const isTooLong = length - (isCrLf ? 1 : 0) > this.#maxBytes;
    return {
      number: this.#number,
      bytes: isTooLong ? Buffer.alloc(0) : bytes,
      ending: isCrLf ? "\r\n" : ending,
      isTooLong,
    };
  }
}

const UTF8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Decodes UTF-8. @returns undefined if the bytes are not valid */
export function textOf(bytes: Uint8Array): string | undefined {
  try {
    return UTF8.decode(bytes);
  } catch {
    return undefined;
  }
}
