import type { Target } from "./attack.ts";

type Fields = readonly (readonly [string, string])[];

export function post(path: string, contentType: string, more: Fields = []): Fields {
  return [
    [":method", "POST"],
    [":scheme", "http"],
    [":authority", "attacked"],
    [":path", path],
    ["content-type", contentType],
    ...more,
  ];
}

export function get(path: string, more: Fields = []): Fields {
  return [[":method", "GET"], [":scheme", "http"], [":authority", "attacked"], [":path", path], ...more];
}

/** Returns the request line and the headers of an HTTP/1.1 request. */
export function head(method: string, target: string, fields: { readonly [name: string]: string | number }): string {
  const lines = Object.entries(fields).map(([name, value]) => `${name}: ${value}\r\n`);
  return `${method} ${target} HTTP/1.1\r\nHost: attacked\r\n${lines.join("")}\r\n`;
}

export function authorization({ server }: Target): [string, string] {
  return ["authorization", server.authorization];
}

/** Encodes a protobuf field of a length-delimited type. */
export function protoField(number: number, value: string | Uint8Array): Buffer {
  const bytes = Buffer.from(value as string);
  return Buffer.concat([varint(number * 8 + 2), varint(bytes.byteLength), bytes]);
}

function varint(value: number): Buffer {
  const bytes: number[] = [];
  let rest = value;
  for (; rest > 0x7f; rest >>>= 7) bytes.push((rest & 0x7f) | 0x80);
  return Buffer.from([...bytes, rest]);
}
