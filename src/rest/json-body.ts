import { fromJsonString } from "@bufbuild/protobuf";
import { StructSchema } from "@bufbuild/protobuf/wkt";
import type { Json, JsonObject } from "../domain/user-group.ts";
import { malformed, refusedJson } from "../rpc/refusals.ts";

const utf8 = new TextDecoder("utf-8", { fatal: true });

/**
 * The JSON object of a body; an empty body is an empty object.
 *
 * @throws ConnectError InvalidArgument when it is no JSON object in UTF-8, or
 *   when an object in it has a key twice
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

/** As `parseBody`, of a text. */
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

/** Deep nesting overflows the stack here, though not in JSON.parse. */
function requireUniqueKeys(text: string, value: JsonObject): void {
  try {
    // What is written back to the same text has lost nothing, a key that was there twice included.
    if (JSON.stringify(value) !== text) fromJsonString(StructSchema, text);
  } catch (cause) {
    throw refusedJson(cause, StructSchema);
  }
}
