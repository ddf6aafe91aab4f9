import { type DescMethodUnary, fromJsonString } from "@bufbuild/protobuf";
import { StructSchema } from "@bufbuild/protobuf/wkt";
import type { Json, JsonObject } from "../domain/user-group.ts";
import { MAX_MESSAGE_BYTES } from "../limits.ts";
import { malformed, notJson, refusedJson } from "../rpc/refusals.ts";
import {
  type EndpointMethod,
  type HeaderRecord,
  type HttpRequest,
  type HttpResponse,
  headerValue,
  RequestRefused,
} from "../transport/index.ts";

const utf8 = new TextDecoder("utf-8", { fatal: true });

/** Responses from this size on are compressed, in bytes. */
const COMPRESS_MIN_BYTES = 1024;

const JSON_TYPE = /^application\/json *(?:;|$)/i;

/** An HTTP method of an endpoint that translates JSON to an RPC and back. */
export function jsonMethod(rpc: DescMethodUnary, serve: EndpointMethod["serve"]): EndpointMethod {
  return { rpc, maxBytes: MAX_MESSAGE_BYTES, compressMinBytes: COMPRESS_MIN_BYTES, serve };
}

/** The response for a JSON text, ended by a line break for terminals. It takes over `headers`. */
export function jsonResponse(headers: HeaderRecord, text: string): HttpResponse {
  headers["content-type"] = "application/json";
  return { status: 200, headers, body: `${text}\n` };
}

/**
 * Parses the body of a request as a JSON object; an empty body gives an empty object. A missing content type counts as
 * JSON.
 *
 * @throws RequestRefused when the content type is another one; ConnectError InvalidArgument when the body is not a JSON
 *   object in UTF-8, or an object in it has a duplicate key
 */
export function readBody({ headers, body }: Pick<HttpRequest, "headers" | "body">): JsonObject {
  const contentType = headerValue(headers, "content-type");
  if (contentType !== null && !JSON_TYPE.test(contentType)) throw new RequestRefused({ kind: "content-type" });
  if (body.byteLength === 0) return {};
  let text: string;
  try {
    text = utf8.decode(body);
  } catch (cause) {
    throw notJson(cause);
  }
  return parseObject(text);
}

/** Parses a text as a JSON object without duplicate keys. @throws ConnectError InvalidArgument */
export function parseObject(text: string): JsonObject {
  let value: Json;
  try {
    value = JSON.parse(text) as Json;
  } catch (cause) {
    throw notJson(cause);
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
