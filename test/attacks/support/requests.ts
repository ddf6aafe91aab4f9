import { envelope } from "@user-group-service/testing/http";
import type { Target } from "./attack.ts";

/** Paths of RPCs and endpoints. */
export const PATHS = {
  get: "/usergroup.v1.UserGroupService/GetUserGroup",
  update: "/usergroup.v1.UserGroupService/UpdateUserGroup",
  watch: "/grpc.health.v1.Health/Watch",
  reflection: "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
} as const;

type Fields = readonly (readonly [string, string])[];

/** The fields of an HTTP/2 POST. */
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

/** The fields of an HTTP/2 GET. */
export function get(path: string, more: Fields = []): Fields {
  return [[":method", "GET"], [":scheme", "http"], [":authority", "attacked"], [":path", path], ...more];
}

/** A request of HTTP/1.1 up to its body. */
export function head(method: string, target: string, fields: { readonly [name: string]: string | number }): string {
  const lines = Object.entries(fields).map(([name, value]) => `${name}: ${value}\r\n`);
  return `${method} ${target} HTTP/1.1\r\nHost: attacked\r\n${lines.join("")}\r\n`;
}

/** The field that lets a caller in. */
export function authorization({ server }: Target): [string, string] {
  return ["authorization", `Token ${server.tokens.customer}`];
}

/** A protobuf field of bytes, a text or a message. */
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

/** `UpdateUserGroupRequest` whose properties are a Struct of many keys, followed by many empty ones. */
export function repeatedProperties({ keys, repeats }: { readonly keys: number; readonly repeats: number }): Buffer {
  // Each value is a Value of nothing.
  const entries = Array.from({ length: keys }, (_, i) =>
    protoField(1, Buffer.concat([protoField(1, i.toString(36)), protoField(2, "")])),
  );
  const empty = Array.from({ length: repeats }, () => protoField(4, ""));
  return Buffer.concat([protoField(1, "acme"), protoField(4, Buffer.concat(entries)), ...empty]);
}

/** `ServerReflectionRequest` for the file that holds UserGroupService. */
export function reflectionRequest(): Buffer {
  return envelope(protoField(4, "usergroup.v1.UserGroupService"));
}
