import {
  type DescMessage,
  type DescMethodUnary,
  fromJson,
  fromJsonString,
  type JsonValue,
  type MessageShape,
} from "@bufbuild/protobuf";
import { StructSchema, type Timestamp, timestampDate } from "@bufbuild/protobuf/wkt";
import { codeToString } from "@connectrpc/connect/protocol-connect";
import {
  type Endpoint,
  type EndpointCall,
  type EndpointMethod,
  type HeaderRecord,
  type HttpError,
  type HttpRequest,
  type HttpResponse,
  headerValue,
  RefusalError,
  recordOf,
  requireStrictJson,
} from "@user-group-service/transport";
import { BadRequestSchema, ErrorInfoSchema } from "../../gen/google/rpc/error_details_pb.ts";
import { MAX_MESSAGE_BYTES } from "../domain/capacity.ts";
import { EtagMismatch, UserGroupSuspended } from "../domain/errors.ts";
import type { Json, JsonObject } from "../domain/user-group.ts";
import { malformed, notJson, refusedJson } from "../rpc/refusal-errors.ts";

const utf8 = new TextDecoder("utf-8", { fatal: true });

const COMPRESS_MIN_BYTES = 1024;

const JSON_TYPE = /^application\/json *(?:;|$)/i;
const FORM_TYPE = /^application\/x-www-form-urlencoded *(?:;|$)/i;

export function jsonMethod(rpc: DescMethodUnary, serve: EndpointMethod["serve"]): EndpointMethod {
  return { rpc, maxBytes: MAX_MESSAGE_BYTES, compressMinBytes: COMPRESS_MIN_BYTES, serve };
}

export function restEndpoint(methods: { readonly [httpMethod: string]: EndpointMethod }): Endpoint {
  return { protocolName: "rest", methods: new Map(Object.entries(methods)) };
}

/**
 * Creates a JSON response. The text ends with a line break, so that it is readable in a terminal. Adds `content-type`
 * to `headers`.
 */
export function jsonResponse(headers: HeaderRecord, body: object): HttpResponse {
  headers["content-type"] = "application/json";
  return { status: 200, headers, body: `${JSON.stringify(body)}\n` };
}

/**
 * Converts JSON fields to a request, and calls the RPC with this request. Rejects with the errors of `messageOf` and of
 * the RPC.
 */
export async function invoke<O extends DescMessage>(
  call: EndpointCall,
  rpc: DescMethodUnary<DescMessage, O>,
  fields: JsonObject,
): Promise<MessageShape<O>> {
  return (await call.invoke(messageOf(rpc.input, fields))) as MessageShape<O>;
}

/**
 * Parses the body of a request as a JSON object. An empty body is an empty object. The default content type is JSON.
 *
 * @throws RefusalError for another content type
 * @throws ConnectError InvalidArgument if the body is not UTF-8, is not a JSON object, or has a duplicate key
 */
export function readBody({ headers, body }: Pick<HttpRequest, "headers" | "body">): JsonObject {
  const contentType = headerValue(headers, "content-type");
  if (contentType !== null && !JSON_TYPE.test(contentType)) throw new RefusalError({ kind: "content-type" });
  if (body.byteLength === 0) return {};
  let text: string;
  try {
    text = utf8.decode(body);
  } catch (cause) {
    throw notJson(cause);
  }
  return parseObject(text);
}

export function isForm({ headers }: Pick<HttpRequest, "headers">): boolean {
  return FORM_TYPE.test(headerValue(headers, "content-type") ?? "");
}

/**
 * Parses the URL-encoded fields of a form or a query.
 *
 * @param what the name of the input in an error message
 * @throws ConnectError InvalidArgument if a field is not UTF-8, because URLSearchParams would replace invalid bytes
 */
export function parseFields(encoded: string | Uint8Array, what: string): URLSearchParams {
  try {
    const text = typeof encoded === "string" ? encoded : utf8.decode(encoded);
    if (text.includes("%")) decodeURIComponent(text);
    return new URLSearchParams(text);
  } catch (cause) {
    throw malformed(`${what} is not percent-encoded UTF-8`, [], cause);
  }
}

/**
 * Returns the value of a field, or undefined if the field is missing. @throws ConnectError if the field occurs twice
 */
export function oneOf(fields: URLSearchParams, name: string): string | undefined {
  const [value, again] = fields.getAll(name);
  if (again !== undefined)
    throw malformed(`${name} must occur only once`, [{ field: name, description: "must occur only once" }]);
  return value;
}

/** Parses a JSON object. Refuses duplicate keys. @throws ConnectError InvalidArgument */
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
  try {
    // JSON.parse accepts duplicate keys. If JSON.stringify returns the original text, the text has no duplicate key.
    // Otherwise, the text may have a duplicate key, and `fromJsonString` refuses such a text. JSON.stringify and
    // `fromJsonString` throw an error if the nesting is very deep.
    if (JSON.stringify(value) !== text) fromJsonString(StructSchema, text);
  } catch (cause) {
    throw refusedJson(cause, StructSchema);
  }
  return value;
}

/** Returns the fields that are present and not null. In the JSON format of protobuf, null means absent. */
export function pick(body: JsonObject, names: readonly string[]): JsonObject {
  const picked: JsonObject = {};
  for (const name of names) {
    const value = Object.hasOwn(body, name) ? body[name] : null;
    if (value !== null && value !== undefined) picked[name] = value;
  }
  return picked;
}

/** Converts JSON to a request message. @throws ConnectError InvalidArgument with the invalid field */
export function messageOf<D extends DescMessage>(desc: D, fields: JsonObject): MessageShape<D> {
  try {
    const message = fromJson(desc, fields as JsonValue);
    requireStrictJson(desc, fields);
    return message;
  } catch (cause) {
    throw refusedJson(cause, desc);
  }
}

export function timeText(time: Timestamp | undefined): string | undefined {
  return time && timestampDate(time).toISOString();
}

export const errorResponse: HttpError = (error, httpStatus) => {
  // `toCallError` has added a reason to each error.
  const info = error.findDetails(ErrorInfoSchema)[0];
  const violations = error.findDetails(BadRequestSchema)[0]?.fieldViolations ?? [];
  // Only a request with `If-Match` can fail with an etag mismatch, so the status is 412 (RFC 9110, 15.5.13).
  const status =
    error.cause instanceof EtagMismatch ? 412 : error.cause instanceof UserGroupSuspended ? 403 : httpStatus;
  const text = JSON.stringify({
    success: 0,
    error: {
      code: codeToString(error.code),
      reason: info?.reason,
      message: error.rawMessage,
      ...info?.metadata,
      field_violations: violations.map(({ field, description }) => ({ field, description })),
    },
  });
  const body = Buffer.from(`${text}\n`);
  const headers = {
    "content-type": "application/json",
    "content-length": String(body.byteLength),
    // If a cache stored a 404, the 404 would hide a group that is created afterwards.
    "cache-control": "no-store",
  };
  return { status, headers: { ...headers, ...recordOf(error.metadata) }, body };
};
