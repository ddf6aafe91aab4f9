import { create, toBinary } from "@bufbuild/protobuf";
import type { Path } from "@bufbuild/protobuf/reflect";
import { Violation, violationsToProto } from "@bufbuild/protovalidate";
import { Code, ConnectError } from "@connectrpc/connect";
import { callError, type FieldViolation } from "./errors.ts";

/** How many violations of a request are listed. */
export const MAX_VIOLATIONS = 20;

/** How much of a map key is quoted, in UTF-16 units. */
const MAX_QUOTED = 64;

/** The maximum length of a description, in UTF-16 units. Messages of proto rules may quote the request. */
const MAX_DESCRIPTION = 256;

/**
 * The maximum size of an error in gRPC's headers, in bytes. Many clients and proxies accept 8 KiB of headers in total.
 */
const MAX_ERROR_BYTES = 7 * 1024;

/**
 * How many violations to list, and how many of them in protovalidate's own, longer detail. The first pair that fits is
 * used.
 */
const LISTED = [
  [MAX_VIOLATIONS, MAX_VIOLATIONS],
  [MAX_VIOLATIONS, 5],
  [10, 2],
  [5, 1],
  [1, 1],
] as const;

/**
 * The error for a request with these violations: this service's descriptions, and protovalidate's own detail, of the
 * first of them. Quotes from the request are truncated, because gRPC sends errors in headers, and clients close
 * connections over large headers.
 */
export function validationError(violations: readonly Violation[]): ConnectError {
  const first = violations.slice(0, MAX_VIOLATIONS).map(shortened);
  let error = new ConnectError("");
  for (const [listed, detailed] of LISTED) {
    error = listing(first.slice(0, listed), first.slice(0, detailed), violations.length);
    if (bytesOverGrpc(error) <= MAX_ERROR_BYTES) break;
  }
  return error;
}

function listing(listed: readonly Violation[], detailed: Violation[], total: number): ConnectError {
  const violations = fieldViolations(listed);
  const lines = violations.map(({ field, description }) => `${field}: ${description}`);
  const more = total - violations.length;
  if (more > 0) lines.push(`and ${more} more`);
  const error = callError(Code.InvalidArgument, lines.join("; "), { reason: "VALIDATION_FAILED", violations });
  const [value, desc] = violationsToProto(detailed);
  error.details.unshift({ desc, value });
  return error;
}

/** The approximate size of an error in `grpc-message` and `grpc-status-details-bin`, in bytes. */
function bytesOverGrpc({ rawMessage, details }: ConnectError): number {
  let bytes = Buffer.byteLength(rawMessage);
  for (const detail of details) {
    if ("desc" in detail)
      bytes += detail.desc.typeName.length + toBinary(detail.desc, create(detail.desc, detail.value)).byteLength + 32;
  }
  return encodeURIComponent(rawMessage).length + Math.ceil((bytes * 4) / 3);
}

/** Converts violations to this service's descriptions and the field names of the proto files. */
function fieldViolations(violations: readonly Violation[]): FieldViolation[] {
  return violations.map((violation) => ({ field: fieldPath(violation.field), description: describe(violation) }));
}

function shortened({ message, ruleId, field, rule, forKey }: Violation): Violation {
  return new Violation(cut(message, MAX_DESCRIPTION), ruleId, shortPath(field), rule, forKey);
}

function shortPath(path: Path): Path {
  return path.map((part) =>
    part.kind === "map_sub" && typeof part.key === "string" ? { ...part, key: cut(part.key, MAX_QUOTED) } : part,
  );
}

/** Truncates a text, and replaces lone halves of surrogate pairs. */
function cut(text: string, length: number): string {
  const kept = text.length <= length ? text : `${text.slice(0, length)}…`;
  return kept.toWellFormed();
}

/** What each pattern of the proto files requires. */
const PATTERN_TEXTS: readonly (readonly [pattern: string, text: string])[] = [
  ["^[^\\x00-\\x1f\\x7f-\\x9f]*$", "must not hold control characters"],
  ["^[A-Za-z0-9._-]{1,64}$", "must be 1 to 64 letters, digits, ., _ or -"],
  ["^[\\x21-\\x7e]*$", "must hold visible ASCII characters only, and no spaces"],
];

function describe({ ruleId, message }: Violation): string {
  if (ruleId === "string.min_len" && message.includes(" 1 ")) return "must not be empty";
  if (ruleId !== "string.pattern") return message;
  return PATTERN_TEXTS.find(([pattern]) => message.includes(pattern))?.[1] ?? "holds characters that it must not";
}

/** The path of a field as the proto files name it, such as `mapping["a"]`. */
function fieldPath(path: Path): string {
  let text = "";
  for (const part of path) {
    switch (part.kind) {
      case "field":
      case "oneof":
        text += `${text === "" ? "" : "."}${part.name}`;
        break;
      case "list_sub":
        text += `[${part.index}]`;
        break;
      case "map_sub":
        text += `[${JSON.stringify(part.key)}]`;
        break;
      default:
        break;
    }
  }
  return text;
}
