import type { DescField, DescMessage, DescOneof } from "@bufbuild/protobuf";
import { isFieldError } from "@bufbuild/protobuf/reflect";
import { Code, ConnectError } from "@connectrpc/connect";
import { addDetail, callError, reasonOfCode } from "./errors.ts";
import type { FieldViolation } from "./violations.ts";

/** The largest request message, in bytes, compressed or not. */
export const MAX_MESSAGE_BYTES = 1024 * 1024;

/** The same of what anybody may send: names alone. */
export const MAX_OPEN_MESSAGE_BYTES = 4096;

/** The longest text of the transport that is passed on, in UTF-16 units. */
const MAX_TEXT = 256;

/** Where the transport names the limit that a message is over. */
const LIMIT = /\breadMaxBytes (\d+)/;

/** Deeper messages are not decoded: what is in them is refused by lower limits anyway. The stack is the last limit. */
const TOO_DEEP = /maximum (?:recursion depth|call stack)/i;

/**
 * What a caller is told of a request that could not be decoded. The texts of
 * the libraries stay inside: they may repeat what was sent.
 *
 * @param error as the transport raised it
 * @param input the request's message type
 */
export function refusedError(error: ConnectError, input: DescMessage): ConnectError {
  if (error.code === Code.ResourceExhausted) return tooLarge(limitOf(error.rawMessage));
  if (error.rawMessage.startsWith("parse binary: ")) {
    return malformed(`the body is not a valid ${input.typeName} in protobuf's binary format`, [], error);
  }
  if (error.code === Code.InvalidArgument && error.cause !== undefined && !(error.cause instanceof ConnectError)) {
    return refusedJson(error.cause, input);
  }
  // Connect's texts quote header fields whole.
  const text = error.rawMessage.slice(0, MAX_TEXT).toWellFormed();
  const refused = new ConnectError(text, error.code, error.metadata, undefined, error);
  addDetail(refused, { reason: reasonOfCode(error.code) });
  return refused;
}

/** What a caller is told of JSON that is not a request's message. */
export function refusedJson(cause: unknown, input: DescMessage): ConnectError {
  const text = cause instanceof Error ? cause.message : "";
  const fieldError = fieldErrorOf(cause);
  if (fieldError) {
    const violation = violationOf(fieldError.field());
    return malformed(`${violation.field}: ${violation.description}`, [violation], cause);
  }
  if (TOO_DEEP.test(text))
    return malformed("the JSON is nested too deeply; properties may be 32 levels deep", [], cause);
  if (text.includes("duplicate object key")) {
    return malformed("the JSON has an object with one key twice; send every key once", [], cause);
  }
  const wellKnown = /\bgoogle\.protobuf\.\w+/.exec(text)?.[0];
  const field = input.fields.find(({ message }) => message !== undefined && message.typeName === wellKnown);
  if (field) {
    const violation = violationOf(field);
    return malformed(`${violation.field}: ${violation.description}`, [violation], cause);
  }
  return malformed("the body is not valid JSON in UTF-8", [], cause);
}

/** What a caller is told of a message over the limit, in bytes. */
export function tooLarge(limit: number = MAX_MESSAGE_BYTES): ConnectError {
  const message = `the request is larger than ${limit} bytes; send less`;
  return callError(Code.ResourceExhausted, message, { reason: "MESSAGE_TOO_LARGE" });
}

/** A request of another form than its type. */
export function malformed(message: string, violations: readonly FieldViolation[], cause?: unknown): ConnectError {
  return callError(Code.InvalidArgument, message, { reason: "MALFORMED_REQUEST", violations, cause });
}

/** The error that names the field at fault; protobuf-es hands it on as the cause of another. */
function fieldErrorOf(error: unknown) {
  if (isFieldError(error)) return error;
  return error instanceof Error && isFieldError(error.cause) ? error.cause : undefined;
}

function limitOf(text: string): number | undefined {
  const limit = LIMIT.exec(text)?.[1];
  return limit === undefined ? undefined : Number(limit);
}

function violationOf(field: DescField | DescOneof | { readonly name: string }): FieldViolation {
  return { field: field.name, description: expectation(field) };
}

function expectation(field: DescField | DescOneof | { readonly name: string }): string {
  if (!("kind" in field)) return "is not of the right type";
  if (field.kind === "oneof") return `give exactly one of ${field.fields.map(({ name }) => name).join(", ")}, once`;
  if (field.fieldKind === "map") return "must be a JSON object whose values are strings, given once";
  if (field.fieldKind !== "message") return "must be a string in well-formed Unicode, given once";
  switch (field.message.typeName) {
    case "google.protobuf.Struct":
      return "must be a JSON object, given once";
    case "google.protobuf.Duration":
      return 'must be a duration in seconds, such as "300s"';
    case "google.protobuf.FieldMask":
      return 'must be a comma list of fields in lowerCamelCase, such as "name,properties"';
    default:
      return "is not of the right type";
  }
}
