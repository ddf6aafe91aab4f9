import { type DescField, type DescMessage, type DescMethod, type DescOneof, ScalarType } from "@bufbuild/protobuf";
import { isFieldError } from "@bufbuild/protobuf/reflect";
import { Code, ConnectError } from "@connectrpc/connect";
import { type OnRefused, type Refusal, type RefusedRequest, SharedError } from "@user-group-service/transport";
import { callError, type FieldViolation, toCallError, untraced } from "./errors.ts";
import { callOf, callValues, type Observers, REQUEST_ID_HEADER } from "./observed-call.ts";

/** The maximum length of a transport error text that is passed on, in UTF-16 units. */
const MAX_TEXT = 256;

/**
 * What protobuf-es says about JSON that it refuses, and what callers are told. Where it names no field it throws plain
 * Errors that differ in their texts alone, so these have to be matched; refusal-errors.test.ts compares them with the library.
 */
const JSON_TEXTS: readonly (readonly [RegExp, string])[] = [
  // Lower limits refuse the content of such messages anyway. The last limit is the call stack.
  [/maximum (?:recursion depth|call stack)/i, "the JSON is nested too deeply; properties may be 32 levels deep"],
  [/duplicate object key/, "a JSON object has a duplicate key; send every key once"],
];
const NAMED_TYPE = /\bgoogle\.protobuf\.\w+|(?<=^cannot decode enum )[\w.]+/;

/** When an overloaded server asks callers to retry, in seconds. The calls in flight are answered well within it. */
const RETRY_AFTER_SECONDS = 1;

/** Counts and logs every request that is refused before it becomes a call, and makes the error for its caller. */
export function observeRefusals(observers: Observers): OnRefused {
  return (refusal, request) => {
    const { protocolName = "none", contextValues } = request;
    const call = contextValues ? callOf(contextValues) : callValues(protocolName);
    call.begin(observers, request);
    if (request.arrived !== undefined) call.started -= Math.max(0, Date.now() - request.arrived);
    // An unexpected error in authorization or an endpoint, and an invalid response, are faults of the server.
    call.isRefused = !["unauthorized", "unencodable", "endpoint"].includes(refusal.kind);
    const error = refusedError(refusal, request);
    if (error !== overloaded?.error) return call.fail(error);
    call.end(error);
    return { shared: overloaded, headers: { [REQUEST_ID_HEADER]: call.id } };
  };
}

/**
 * The error for the caller of a request that is refused before it becomes a call. The texts of libraries are not passed
 * on: they may quote the request.
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
      const text = `the request took too long to arrive: its header may take ${header} seconds, and all of it ${all}`;
      return callError(Code.DeadlineExceeded, text, { reason: "REQUEST_TIMEOUT" });
    }
    case "expectation-failed":
      return callError(Code.InvalidArgument, EXPECTATION_FAILED, { reason: "EXPECTATION_FAILED" });
    case "header-too-large": {
      const text = `the request line and the header fields are larger than ${refusal.maxBytes / 1024} KiB; send less, or the fields in a body`;
      return callError(Code.ResourceExhausted, text, { reason: "HEADER_TOO_LARGE" });
    }
    case "too-many-streams":
      return retryLater("too many streams are open; end some, or try again later", "TOO_MANY_STREAMS");
    case "too-many-bodies":
      return retryLater("too many requests are waiting for their bodies; try again later", "OVERLOADED");
    case "too-many-calls":
      return sharedOverloaded().error;
    case "not-found":
      return protocolName === undefined || protocolName === "connect"
        ? callError(Code.NotFound, NOTHING_HERE, { reason: "PATH_NOT_FOUND" })
        : callError(Code.Unimplemented, "this server has no such method", { reason: "UNIMPLEMENTED" });
    case "http-method": {
      const list = [...new Set(refusal.allowed)].join(", ");
      const text = `${refusal.httpMethod} is not a method of this path; it has ${list}`;
      const error = callError(Code.Unimplemented, text, { reason: "METHOD_NOT_ALLOWED" });
      error.metadata.set("allow", list);
      return error;
    }
    case "content-type":
      return unsupportedType(protocolName === "rest" ? REST_TYPE : RPC_TYPES);
    case "content-encoding":
      return unsupportedType(`the Content-Encoding must be one of ${refusal.accepted.join(", ")}`);
    case "message-too-large": {
      const text = `the request is larger than ${refusal.maxBytes} bytes; send less`;
      return callError(Code.ResourceExhausted, text, { reason: "MESSAGE_TOO_LARGE" });
    }
    case "malformed-compression":
      return malformed(`the body is not valid ${refusal.encoding}`, [], refusal.error);
    case "malformed-message":
      return malformedMessage(refusal, method);
    case "protocol": {
      // Truncated, because Connect's own texts may quote whole headers.
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
  "this is not well-formed HTTP: in the target, percent-encode # and what is not ASCII; over HTTP/1.1 send a request line, then fields, one of them a host such as Host: example.com, then an empty line";
const TRANSFER_CODING =
  "the header Transfer-Encoding may say chunked and nothing else; send other codings as Content-Encoding";
const EXPECTATION_FAILED = "the header Expect may say 100-continue and nothing else";
const NOTHING_HERE = "nothing is served at this path; the REST interface is at /api/user and /api/viewer";
const REST_TYPE = "the Content-Type must be application/json; /api/viewer also takes application/x-www-form-urlencoded";
const RPC_TYPES = "the Content-Type must be that of Connect, such as application/json, of gRPC or of gRPC-Web";

function retryLater(message: string, reason: string): ConnectError {
  const error = callError(Code.ResourceExhausted, message, { reason });
  error.metadata.set("retry-after", String(RETRY_AFTER_SECONDS));
  return error;
}

let overloaded: SharedError | undefined;

/**
 * The one error of all calls for which a worker has no room. It is made once the service listens, because the first error
 * of a process loads the fetch API, for its headers: a tenth of the start.
 */
export function sharedOverloaded(): SharedError {
  overloaded ??= new SharedError(
    untraced(() => retryLater("the server is overloaded: too many calls are in flight; try again later", "OVERLOADED")),
  );
  return overloaded;
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

/** The error for JSON that does not match a request's message. */
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

/** The error for a body that cannot be parsed as JSON. */
export function notJson(cause: unknown): ConnectError {
  return malformed("the body is not valid JSON in UTF-8", [], cause);
}

/** The error for a request that is not of the required form. */
export function malformed(message: string, violations: readonly FieldViolation[], cause?: unknown): ConnectError {
  return callError(Code.InvalidArgument, message, { reason: "MALFORMED_REQUEST", violations, cause });
}

/** The protobuf-es error that names the invalid field; it may be wrapped in another error as its cause. */
function fieldErrorOf(error: unknown) {
  if (isFieldError(error)) return error;
  return error instanceof Error && isFieldError(error.cause) ? error.cause : undefined;
}

function expectation(field: DescField | DescOneof): string {
  if (field.kind === "oneof") return `give exactly one of ${field.fields.map(({ name }) => name).join(", ")}, once`;
  if (field.fieldKind === "map") return "must be a JSON object whose values are strings, given once";
  if (field.enum) return `must be one of ${field.enum.values.map(({ name }) => name).join(", ")}`;
  if (field.fieldKind === "list") return "must be a JSON array, its texts in well-formed Unicode, given once";
  if (field.fieldKind === "scalar") {
    if (field.scalar === ScalarType.BOOL) return "must be true or false, given once";
    const isNumber = field.scalar !== ScalarType.STRING && field.scalar !== ScalarType.BYTES;
    return `must be a ${isNumber ? "whole number" : "string in well-formed Unicode"}, given once`;
  }
  switch (field.message.typeName) {
    case "google.protobuf.Struct":
      return "must be a JSON object, given once";
    case "google.protobuf.Duration":
      return 'must be a duration in seconds, such as "300s"';
    case "google.protobuf.Timestamp":
      return 'must be a time of RFC 3339, such as "2027-01-31T12:00:00Z"';
    case "google.protobuf.FieldMask":
      return 'must be a comma list of fields in lowerCamelCase, such as "name,properties"';
    default:
      return "is not of the right type";
  }
}
