import type { RawRequest } from "./differential-wire.ts";

const [DATA, HEADERS, RST_STREAM, SETTINGS] = [0, 1, 3, 4];
const END_STREAM = 1;
const END_HEADERS = 4;
const STREAM = 1;

/**
 * The bytes of an HTTP/2 connection with one request that is reset before its
 * body ends. Clients such as node:http2's end the body before they reset, so
 * they cannot show what becomes of half a body.
 */
export function resetUpload(request: RawRequest, length: number, code: number): Buffer {
  return Buffer.concat([
    opening(request),
    frame(DATA, 0, STREAM, request.body.subarray(0, length)),
    frame(RST_STREAM, 0, STREAM, uint32(code)),
  ]);
}

/** The same request sent to its end. */
export function wholeUpload(request: RawRequest): Buffer {
  return Buffer.concat([opening(request), frame(DATA, END_STREAM, STREAM, request.body)]);
}

function opening({ method, target, headers }: RawRequest): Buffer {
  const fields = [
    [":method", method],
    [":path", target],
    [":scheme", "http"],
    [":authority", "raw"],
    ...headers,
  ] as const;
  const block = Buffer.concat(fields.flatMap(([name, value]) => [Buffer.of(0), literal(name), literal(value)]));
  return Buffer.concat([
    Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    frame(SETTINGS, 0, 0, new Uint8Array(0)),
    frame(HEADERS, END_HEADERS, STREAM, block),
  ]);
}

/** A frame (RFC 9113, 4.1). */
function frame(type: number, flags: number, stream: number, payload: Uint8Array): Buffer {
  const length = uint32(payload.byteLength).subarray(1);
  return Buffer.concat([length, Buffer.of(type, flags), uint32(stream), payload]);
}

/** A string that is neither indexed nor compressed (RFC 7541, 5.2), of less than 127 bytes. */
function literal(text: string): Buffer {
  const bytes = Buffer.from(text);
  if (bytes.byteLength >= 127) throw new RangeError(`${text} is too long`);
  return Buffer.concat([Buffer.of(bytes.byteLength), bytes]);
}

function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}
