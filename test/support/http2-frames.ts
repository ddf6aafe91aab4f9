/** Types of HTTP/2 frames (RFC 9113, 6). */
export const FRAME = { data: 0, headers: 1, reset: 3, settings: 4, ping: 6, goaway: 7, window: 8 } as const;

/** Flags of HTTP/2 frames. */
export const FLAG = { ack: 1, endStream: 1, endHeaders: 4 } as const;

/** The preface of a connection and empty SETTINGS. */
export const HELLO = Buffer.concat([Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), frame(FRAME.settings, 0, 0)]);

/** A frame of HTTP/2 (RFC 9113, 4.1). */
export function frame(type: number, flags: number, stream: number, payload: Uint8Array = Buffer.alloc(0)): Buffer {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.byteLength, 0, 3);
  head.writeUInt8(type, 3);
  head.writeUInt8(flags, 4);
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, payload]);
}

/** A field of HPACK, literal without indexing (RFC 7541, 6.2.2). */
export function field(name: string, value: string): Buffer {
  return Buffer.concat([Buffer.from([0]), text(name), text(value)]);
}

/** HEADERS of a request, with the usual pseudo-header fields unless they are given. */
export function requestHeaders(
  stream: number,
  fields: { readonly [name: string]: string },
  options: { readonly endStream?: boolean } = {},
): Buffer {
  const all = { ":method": "POST", ":scheme": "http", ":path": "/", ":authority": "x", ...fields };
  const names = Object.keys(all).sort((one, other) => Number(other.startsWith(":")) - Number(one.startsWith(":")));
  const block = Buffer.concat(names.map((name) => field(name, (all as { [name: string]: string })[name] ?? "")));
  return frame(FRAME.headers, FLAG.endHeaders | (options.endStream ? FLAG.endStream : 0), stream, block);
}

/** A 32-bit number, as WINDOW_UPDATE and RST_STREAM have it. */
export function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

/** One setting of SETTINGS (RFC 9113, 6.5.1). */
export function setting(id: number, value: number): Buffer {
  const bytes = Buffer.alloc(6);
  bytes.writeUInt16BE(id);
  bytes.writeUInt32BE(value, 2);
  return bytes;
}

/** A text behind its length, in 7 bits and more (RFC 7541, 5.1 and 5.2). */
function text(value: string): Buffer {
  const bytes = Buffer.from(value, "latin1");
  if (bytes.byteLength < 127) return Buffer.concat([Buffer.from([bytes.byteLength]), bytes]);
  const length = [127];
  let left = bytes.byteLength - 127;
  for (; left >= 128; left >>= 7) length.push((left & 127) | 128);
  return Buffer.concat([Buffer.from([...length, left]), bytes]);
}
