import { fromJsonString } from "@bufbuild/protobuf";
import { StructSchema } from "@bufbuild/protobuf/wkt";
import type { Json, JsonObject } from "../domain/user-group.ts";
import { malformed, refusedJson } from "../rpc/refusals.ts";
import { type HeaderRecord, headerValue, RequestRefused } from "../transport/index.ts";

const utf8 = new TextDecoder("utf-8", { fatal: true });

/** Responses from this size on are compressed, in bytes. */
export const COMPRESS_MIN_BYTES = 1024;

const JSON_TYPE = /^application\/json *(?:;|$)/i;

/** Refuses a content type that is not JSON's; a missing one counts as JSON. @throws RequestRefused */
export function requireJson(headers: HeaderRecord): void {
  const contentType = headerValue(headers, "content-type");
  if (contentType !== null && !JSON_TYPE.test(contentType)) throw new RequestRefused({ kind: "content-type" });
}

/**
 * Parses a body as a JSON object; an empty body gives an empty object.
 *
 * @throws ConnectError InvalidArgument when the body is not a JSON object in UTF-8, or an object in it has a duplicate
 *   key
 */
export function parseBody(body: Uint8Array): JsonObject {
  if (body.byteLength === 0) return {};
  let text: string;
  try {
    text = utf8.decode(body);
  } catch (cause) {
    throw malformed("the body is not valid JSON in UTF-8", [], cause);
  }
  return parseObject(text);
}

/** Like `parseBody`, for a text. @throws ConnectError InvalidArgument */
export function parseObject(text: string): JsonObject {
  let value: Json;
  try {
    value = JSON.parse(text) as Json;
  } catch (cause) {
    throw malformed("the body is not valid JSON in UTF-8", [], cause);
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw malformed("the body must be a JSON object", []);
  }
  requireUniqueKeys(text, value);
  return value;
}

/** Refuses duplicate keys, and nesting so deep that it overflows the stack here, though not in JSON.parse. */
function requireUniqueKeys(text: string, value: JsonObject): void {
  try {
    // If the value serializes to the same text, it has lost no duplicate key.
    if (JSON.stringify(value) !== text) fromJsonString(StructSchema, text);
  } catch (cause) {
    throw refusedJson(cause, StructSchema);
  }
}
