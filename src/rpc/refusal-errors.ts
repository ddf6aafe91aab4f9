import { type DescField, type DescMessage, type DescMethod, type DescOneof, ScalarType } from "@bufbuild/protobuf";
import { isFieldError } from "@bufbuild/protobuf/reflect";
import { Code, ConnectError } from "@connectrpc/connect";
import type { HeaderRecord, OnRefused, Refusal, RefusedRequest } from "@user-group-service/transport";
import { isOverload } from "../observability/metrics.ts";
import { CallContext, callOf } from "./call-context.ts";
import { callError, type FieldViolation, toCallError, withoutStackTrace } from "./errors.ts";
import { Observation, type Observers } from "./observation.ts";

/** The maximum length of an error message of the transport, in UTF-16 units. */
const MAX_TEXT = 256;

/**
 * Patterns of protobuf-es' error messages for invalid JSON, each with the message that the caller receives.
 * refusal-errors.test.ts tests the patterns with protobuf-es.
 */
const JSON_TEXTS: readonly (readonly [RegExp, string])[] = [
  // The message states the limit of validation, because this limit is lower than the limit of the decoder.
  [/maximum (?:recursion depth|call stack)/i, "the JSON is nested too deeply; properties may have at most 32 levels"],
  [/duplicate object key/, "a JSON object has a duplicate key; send each key once"],
];
const NAMED_TYPE = /\bgoogle\.protobuf\.\w+|(?<=^cannot decode enum )[\w.]+/;

const DEADLINE_EXCEEDED =
  "the deadline passed while the call waited, and the call did not begin; set a longer deadline, or try again later";

const RETRY_AFTER_SECONDS = 1;

/**
 * Returns the function that counts and logs a refused request. The function returns the error for the caller.
 *
 * @param environmentOf returns the name of the caller's environment for the metrics. By default, the metrics contain no
 *   environment
 */
export function observeRefusals(
  observers: Observers,
  environmentOf: (headers: HeaderRecord) => string | undefined = () => undefined,
): OnRefused {
  return (refusal, request) => {
    const { contextValues, arrived = Date.now() } = request;
    const call = contextValues ? callOf(contextValues) : new CallContext(request);
    const started = performance.now() - Math.max(0, Date.now() - arrived);
    const observation = new Observation(observers, call, started);
    // Only refusals of these kinds can be faults of the server.
    observation.isRequestFault = !["unauthorized", "unencodable", "endpoint"].includes(refusal.kind);
    const cause = refusal.kind === "overloaded" ? refusal.cause : refusal.kind;
    if (isOverload(cause)) observers.metrics.overloaded(cause, environmentOf(request.headers));
    return observation.fail(refusedError(refusal, request));
  };
}

/**
 * Creates the error for a refused request. Replaces error messages of libraries, because these messages may quote the
 * request.
 */
export function refusedError(
  refusal: Refusal,
  { method, protocolName }: Pick<RefusedRequest, "method" | "protocolName">,
): ConnectError {
  switch (refusal.kind) {
    case "malformed-http":
      return callError(Code.InvalidArgument, MALFORMED_HTTP, { reason: "MALFORMED_HTTP" });
    case "transfer-coding":
      return callError(Code.Unimplemented, TRANSFER_CODING, { reason: "UNIMPLEMENTED" });
    case "request-timeout": {
      const [header, all] = [refusal.headerMs / 1000, refusal.requestMs / 1000];
      const text = `the request arrived too slowly: the limit is ${header} s for the header and ${all} s for the whole request`;
      return callError(Code.DeadlineExceeded, text, { reason: "REQUEST_TIMEOUT" });
    }
    case "expectation-failed":
      return callError(Code.InvalidArgument, EXPECTATION_FAILED, { reason: "EXPECTATION_FAILED" });
    case "header-too-large": {
      const text = `the request line and headers exceed ${refusal.maxBytes / 1024} KiB; send fewer headers, or send the fields in a body`;
      return callError(Code.ResourceExhausted, text, { reason: "HEADER_TOO_LARGE" });
    }
    case "too-many-streams":
      return retryLater("too many streams are open; close some streams, or try again later", "TOO_MANY_STREAMS");
    case "too-many-bodies":
      return retryLater("too many request bodies are incomplete; try again later", "OVERLOADED");
    case "overloaded":
      return withoutStackTrace(() =>
        retryLater("the server is overloaded; try again later", "OVERLOADED", refusal.retryAfterSeconds),
      );
    case "deadline-exceeded":
      return callError(Code.DeadlineExceeded, DEADLINE_EXCEEDED, { reason: "DEADLINE_EXCEEDED" });
    case "not-found":
      return protocolName === undefined || protocolName === "connect"
        ? callError(Code.NotFound, NOTHING_HERE, { reason: "PATH_NOT_FOUND" })
        : callError(Code.Unimplemented, "this server does not serve this method", { reason: "UNIMPLEMENTED" });
    case "http-method": {
      const list = [...new Set(refusal.allowed)].join(", ");
      const text = `this path does not allow ${refusal.httpMethod}; use ${list}`;
      const error = callError(Code.Unimplemented, text, { reason: "METHOD_NOT_ALLOWED" });
      error.metadata.set("allow", list);
      return error;
    }
    case "content-type":
      return unsupportedType(protocolName === "rest" ? REST_TYPE : RPC_TYPES);
    case "content-encoding":
      return unsupportedType(`the Content-Encoding must be one of ${refusal.accepted.join(", ")}`);
    case "message-too-large": {
      const text = `the request is larger than ${refusal.maxBytes} bytes; send a smaller request`;
      return callError(Code.ResourceExhausted, text, { reason: "MESSAGE_TOO_LARGE" });
    }
    case "malformed-compression":
      return malformed(`the body is not valid ${refusal.encoding}`, [], refusal.error);
    case "malformed-message":
      return malformedMessage(refusal, method);
    case "protocol": {
      // Connect's messages may quote whole headers, so shorten the message.
      const { code, metadata, rawMessage } = refusal.error;
      return new ConnectError(rawMessage.slice(0, MAX_TEXT).toWellFormed(), code, metadata, undefined, refusal.error);
    }
    case "unencodable":
      return toCallError(refusal.error.cause ?? refusal.error);
    case "unauthorized":
    case "endpoint":
      return toCallError(refusal.error);
  }
}

const MALFORMED_HTTP =
  "the request is not well-formed HTTP: percent-encode # and non-ASCII characters in the URL; over HTTP/1.1, send one valid Host header";
const TRANSFER_CODING = "the header Transfer-Encoding must be chunked; use Content-Encoding for compression";
const EXPECTATION_FAILED = "the header Expect must be 100-continue; send no other value";
const NOTHING_HERE = "this path does not exist; the REST API is at /api/user and /api/viewer";
const REST_TYPE =
  "the Content-Type must be application/json; /api/viewer also accepts application/x-www-form-urlencoded";
const RPC_TYPES = "the Content-Type must be a type of Connect, gRPC or gRPC-Web, such as application/json";

function retryLater(message: string, reason: string, seconds = RETRY_AFTER_SECONDS): ConnectError {
  const error = callError(Code.ResourceExhausted, message, { reason });
  error.metadata.set("retry-after", String(seconds));
  return error;
}

function unsupportedType(message: string): ConnectError {
  return callError(Code.InvalidArgument, message, { reason: "UNSUPPORTED_MEDIA_TYPE" });
}

function malformedMessage(
  { isBinary, error }: Refusal & { readonly kind: "malformed-message" },
  method: DescMethod | undefined,
): ConnectError {
  if (!method) return malformed("the body is not valid", [], error);
  if (!isBinary) return refusedJson(error.cause ?? error, method.input);
  return malformed(`the body is not a valid ${method.input.typeName} in protobuf's binary format`, [], error);
}

export function refusedJson(cause: unknown, input: DescMessage): ConnectError {
  const text = cause instanceof Error ? cause.message : "";
  const known = JSON_TEXTS.find(([pattern]) => pattern.test(text));
  const typeName = known ? undefined : NAMED_TYPE.exec(text)?.[0];
  const field =
    fieldErrorOf(cause)?.field() ??
    input.fields
      .flatMap((outer) => [outer, ...(outer.message?.fields ?? [])])
      .find((inner) => typeName !== undefined && (inner.message ?? inner.enum)?.typeName === typeName);
  if (!field) return known ? malformed(known[1], [], cause) : notJson(cause);
  const violation = { field: field.name, description: expectation(field) };
  return malformed(`${violation.field}: ${violation.description}`, [violation], cause);
}

export function notJson(cause: unknown): ConnectError {
  return malformed("the body is not valid JSON in UTF-8", [], cause);
}

export function malformed(message: string, violations: readonly FieldViolation[], cause?: unknown): ConnectError {
  return callError(Code.InvalidArgument, message, { reason: "MALFORMED_REQUEST", violations, cause });
}

/** Returns the protobuf-es error with the invalid field: `error` or its cause. Undefined if there is no such error. */
function fieldErrorOf(error: unknown) {
  if (isFieldError(error)) return error;
  return error instanceof Error && isFieldError(error.cause) ? error.cause : undefined;
}

function expectation(field: DescField | DescOneof): string {
  if (field.kind === "oneof") return `send exactly one of ${field.fields.map(({ name }) => name).join(", ")}`;
  if (field.fieldKind === "map") return "must be a JSON object whose values are strings, and must occur only once";
  if (field.enum) return `must be one of ${field.enum.values.map(({ name }) => name).join(", ")}`;
  if (field.fieldKind === "list") return "must be a JSON array with only well-formed Unicode, and must occur only once";
  if (field.fieldKind === "scalar") {
    if (field.scalar === ScalarType.BOOL) return "must be true or false, and must occur only once";
    const isNumber = field.scalar !== ScalarType.STRING && field.scalar !== ScalarType.BYTES;
    return `must be a ${isNumber ? "whole number" : "string in well-formed Unicode"}, and must occur only once`;
  }
  return EXPECTED_JSON[field.message.typeName] ?? "is not of the right type";
}

const EXPECTED_JSON: { readonly [typeName: string]: string } = {
  "google.protobuf.Struct": "must be a JSON object, and must occur only once",
  "google.protobuf.Duration": 'must be a duration in seconds, such as "300s"',
  "google.protobuf.Timestamp": 'must be a time of RFC 3339, such as "2027-01-31T12:00:00Z"',
  "google.protobuf.FieldMask": 'must be a comma-separated list of fields in lowerCamelCase, such as "name,properties"',
};
