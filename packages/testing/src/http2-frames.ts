export const PREFACE = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");

/** Frame types (RFC 9113, 6). */
export const FRAME = {
  data: 0,
  headers: 1,
  priority: 2,
  reset: 3,
  settings: 4,
  push: 5,
  ping: 6,
  goAway: 7,
  windowUpdate: 8,
  continuation: 9,
} as const;

/** Frame flags. END_STREAM and ACK share a bit. */
export const FLAG = { endStream: 1, ack: 1, endHeaders: 4, padded: 8, priority: 0x20 } as const;

export function frame(type: number, flags: number, stream: number, payload: Uint8Array = Buffer.alloc(0)): Buffer {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.byteLength & 0xffffff, 0, 3);
  head.writeUInt8(type & 0xff, 3);
  head.writeUInt8(flags & 0xff, 4);
  head.writeUInt32BE(stream >>> 0, 5);
  return Buffer.concat([head, payload]);
}

/** Builds a frame whose payload is a 32-bit number, such as RST_STREAM or WINDOW_UPDATE. */
export function numberFrame(type: number, stream: number, value: number): Buffer {
  return frame(type, 0, stream, uint32(value));
}

export function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value >>> 0);
  return bytes;
}

/** Builds a SETTINGS frame from pairs of identifier and value (RFC 9113, 6.5). */
export function settings(...pairs: readonly (readonly [number, number])[]): Buffer {
  const payload = Buffer.alloc(pairs.length * 6);
  pairs.forEach(([name, value], i) => {
    payload.writeUInt16BE(name, i * 6);
    payload.writeUInt32BE(value, i * 6 + 2);
  });
  return frame(FRAME.settings, 0, 0, payload);
}

/** Encodes an HPACK integer with a prefix of `prefixBits` bits (RFC 7541, 5.1). */
function hpackNumber(value: number, prefixBits: number, first = 0): Buffer {
  const most = (1 << prefixBits) - 1;
  if (value < most) return Buffer.from([first | value]);
  const bytes = [first | most];
  let rest = value - most;
  for (; rest >= 128; rest = Math.floor(rest / 128)) bytes.push((rest % 128) + 128);
  return Buffer.from([...bytes, rest]);
}

/**
 * Encodes a literal HPACK field (RFC 7541, 6.2). If `isIndexed` is true, the receiver adds the field to its dynamic
 * table.
 */
export function hpackField(name: string, value: string, isIndexed = false): Buffer {
  const text = (part: string) => [hpackNumber(Buffer.byteLength(part, "latin1"), 7), Buffer.from(part, "latin1")];
  return Buffer.concat([Buffer.from([isIndexed ? 0x40 : 0]), ...text(name), ...text(value)]);
}

export function hpackBlock(fields: readonly (readonly [string, string])[]): Buffer {
  return Buffer.concat(fields.map(([name, value]) => hpackField(name, value)));
}

export interface ReceivedFrame {
  readonly type: number;
  readonly flags: number;
  readonly stream: number;
  readonly payload: Buffer;
}

export class FrameReader {
  #rest: Buffer = Buffer.alloc(0);

  /** Returns the frames that the new bytes complete. */
  push(chunk: Buffer): ReceivedFrame[] {
    const bytes = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk]);
    const frames: ReceivedFrame[] = [];
    let at = 0;
    while (at + 9 <= bytes.length) {
      const end = at + 9 + bytes.readUIntBE(at, 3);
      if (end > bytes.length) break;
      frames.push({
        type: bytes.readUInt8(at + 3),
        flags: bytes.readUInt8(at + 4),
        stream: bytes.readUInt32BE(at + 5) & 0x7fffffff,
        payload: bytes.subarray(at + 9, end),
      });
      at = end;
    }
    this.#rest = bytes.subarray(at);
    return frames;
  }
}

export function framesIn(bytes: Buffer): ReceivedFrame[] {
  return new FrameReader().push(bytes);
}

export const HELLO = Buffer.concat([PREFACE, settings()]);

/** The first bytes of an HTTP/2 connection: the preface, a SETTINGS frame, and the request `GET /` on stream 1. */
export const HTTP2_GET = Buffer.concat([
  HELLO,
  frame(FRAME.headers, FLAG.endHeaders | FLAG.endStream, 1, Buffer.from([0x82, 0x86, 0x84, 0x41, 1, 0x78])),
]);

/** Builds the HEADERS frame of a request. Adds defaults for missing pseudo-header fields. */
export function requestHeaders(
  stream: number,
  fields: { readonly [name: string]: string },
  options: { readonly endStream?: boolean } = {},
): Buffer {
  const all = { ":method": "POST", ":scheme": "http", ":path": "/", ":authority": "x", ...fields };
  const inOrder = Object.entries(all).sort(
    ([one], [other]) => Number(other.startsWith(":")) - Number(one.startsWith(":")),
  );
  return frame(FRAME.headers, FLAG.endHeaders | (options.endStream ? FLAG.endStream : 0), stream, hpackBlock(inOrder));
}
