const FIRST_BYTES = 4096;
const MAX_KEPT_BYTES = 1024 * 1024;
/**
 * Up to this length a loop over the characters is faster than the runtime's encoder. It is below 128, so that the
 * length prefix takes one byte.
 */
const MAX_ASCII_LOOP = 64;

/** Writes protobuf's wire format (https://protobuf.dev/programming-guides/encoding/) into one buffer that it reuses. */
export class ByteSink {
  #buffer = Buffer.allocUnsafe(FIRST_BYTES);
  #at = 0;

  /**
   * Discards what was written.
   *
   * @param headroom how many bytes to leave free at the start
   */
  reset(headroom = 0): void {
    this.#at = headroom;
    if (this.#buffer.byteLength > MAX_KEPT_BYTES) this.#buffer = Buffer.allocUnsafe(FIRST_BYTES);
  }

  /** A copy of what was written. The content of the headroom is undefined. */
  bytes(): Buffer<ArrayBuffer> {
    const copy = Buffer.allocUnsafe(this.#at) as Buffer<ArrayBuffer>;
    this.#buffer.copy(copy, 0, 0, this.#at);
    return copy;
  }

  /** Writes an unsigned number below 2^32 as a varint: a tag or a length. */
  varint(value: number): void {
    this.#reserve(5);
    let rest = value;
    while (rest > 0x7f) {
      this.#buffer[this.#at++] = (rest & 0x7f) | 0x80;
      rest >>>= 7;
    }
    this.#buffer[this.#at++] = rest;
  }

  /**
   * Writes a signed 32-bit number as int32 and enum fields are written: negative ones take ten bytes.
   *
   * @throws RangeError when the value is not an int32
   */
  int32(value: number): void {
    if (!Number.isInteger(value) || value < -0x80000000 || value > 0x7fffffff) throw new RangeError("not an int32");
    if (value >= 0) this.varint(value);
    else this.int64(BigInt(value));
  }

  /**
   * Writes a signed 64-bit number as a varint.
   *
   * @throws RangeError when the value is not a bigint, or needs more bits
   */
  int64(value: bigint): void {
    if (typeof value !== "bigint") throw new RangeError("not an int64");
    if (value >= 0n && value <= 0xffffffffn) {
      this.varint(Number(value));
      return;
    }
    if (BigInt.asIntN(64, value) !== value) throw new RangeError("not an int64");
    this.#reserve(10);
    let rest = BigInt.asUintN(64, value);
    while (rest > 0x7fn) {
      this.#buffer[this.#at++] = Number(rest & 0x7fn) | 0x80;
      rest >>= 7n;
    }
    this.#buffer[this.#at++] = Number(rest);
  }

  /** Writes eight bytes, little-endian. */
  double(value: number): void {
    this.#reserve(8);
    this.#at = this.#buffer.writeDoubleLE(value, this.#at);
  }

  /**
   * Writes a length-prefixed string in UTF-8.
   *
   * @throws TypeError when the value is not a string
   */
  string(value: string): void {
    if (typeof value !== "string") throw new TypeError("not a string");
    const most = value.length * 3;
    this.#reserve(most + 5);
    if (value.length <= MAX_ASCII_LOOP && this.#ascii(value)) return;
    if (most <= 0x7f) {
      // The length prefix takes one byte in any case, so it can be written after the string.
      const length = this.#buffer.write(value, this.#at + 1, "utf8");
      this.#buffer[this.#at] = length;
      this.#at += 1 + length;
      return;
    }
    this.varint(Buffer.byteLength(value));
    this.#at += this.#buffer.write(value, this.#at, "utf8");
  }

  /** Writes a short length-prefixed string; false if it is not ASCII. */
  #ascii(value: string): boolean {
    const buffer = this.#buffer;
    const { length } = value;
    let at = this.#at;
    buffer[at++] = length;
    for (let i = 0; i < length; i++) {
      const code = value.charCodeAt(i);
      if (code > 0x7f) return false;
      buffer[at++] = code;
    }
    this.#at = at;
    return true;
  }

  /** Begins a length-prefixed value. Pass the result to `end`. */
  begin(): number {
    this.#reserve(1);
    return this.#at++;
  }

  /** Ends a length-prefixed value, and writes its length. */
  end(start: number): void {
    const length = this.#at - start - 1;
    if (length <= 0x7f) {
      this.#buffer[start] = length;
      return;
    }
    const extra = length < 1 << 14 ? 1 : length < 1 << 21 ? 2 : length < 1 << 28 ? 3 : 4;
    this.#reserve(extra);
    this.#buffer.copyWithin(start + 1 + extra, start + 1, this.#at);
    const after = this.#at + extra;
    this.#at = start;
    this.varint(length);
    this.#at = after;
  }

  #reserve(bytes: number): void {
    const needed = this.#at + bytes;
    if (needed <= this.#buffer.byteLength) return;
    const larger = Buffer.allocUnsafe(Math.max(needed, this.#buffer.byteLength * 2));
    this.#buffer.copy(larger, 0, 0, this.#at);
    this.#buffer = larger;
  }
}
