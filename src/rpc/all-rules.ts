import {
  create,
  type DescField,
  type DescMessage,
  getOption,
  hasOption,
  type Message,
  toBinary,
  toJson,
} from "@bufbuild/protobuf";
import type { Path } from "@bufbuild/protobuf/reflect";
import { createValidator, Violation, violationsToProto } from "@bufbuild/protovalidate";
import { Code, ConnectError } from "@connectrpc/connect";
import {
  type JsonRules,
  json as jsonRulesOption,
  no_token as noTokenOption,
  visible as visibleOption,
} from "../../gen/usergroup/v1/json_rules_pb.ts";
import type { Json, JsonObject } from "../domain/user-group.ts";
import { hiddenFault } from "../domain/visible-text.ts";
import type { IsCredential } from "./credentials.ts";
import { callError } from "./errors.ts";
import { memoize, regexMatch } from "./plain-text-rules.ts";

/**
 * Creates a function that checks requests by the rules of protovalidate, by this service's rules `json`, `no_token` and
 * `visible`, and by the limits of durations and times. If a request is invalid, the function throws ConnectError
 * InvalidArgument.
 */
export function allRules(isCredential: IsCredential): (desc: DescMessage, message: Message) => void {
  const validator = createValidator({ regexMatch });
  const checkedFields = memoize((desc: DescMessage) =>
    desc.fields
      .map((field) => ({ field, faultOf: checkOf(field, isCredential), type: ownTypeOf(field) }))
      .filter(({ faultOf, type }) => faultOf ?? type),
  );

  const addViolations = (violations: Violation[], desc: DescMessage, message: Message, path: Path) => {
    for (const { field, faultOf, type } of checkedFields(desc)) {
      const value = fieldValue(message, field);
      if (value === undefined) continue;
      const fault = faultOf?.(value);
      if (fault) violations.push(new Violation(fault.message, fault.id, [...path, field], [], false));
      if (type && field.fieldKind === "message") addViolations(violations, type, value as Message, [...path, field]);
      if (!type || field.fieldKind !== "list") continue;
      const before = violations.length;
      for (const [index, item] of (value as readonly Message[]).entries()) {
        addViolations(violations, type, item, [...path, field, { kind: "list_sub", index }]);
        if (violations.length - before > MAX_VIOLATIONS) break;
      }
    }
  };

  return (desc, message) => {
    const result = validator.validate(desc, message);
    const violations = result.kind === "invalid" ? [...result.violations] : [];
    addViolations(violations, desc, message, []);
    if (violations.length > 0) throw validationError(violations);
    // protovalidate returns an error if a time is outside the years 1 to 9999. `addViolations` has already reported
    // such a time as a violation, so an error here has another cause.
    if (result.kind === "error") throw result.error;
  };
}

/** The reason why a value is invalid. Programs may depend on the id, so the id never changes. */
interface Fault {
  readonly id: string;
  readonly message: string;
}

/**
 * Returns the message type of a field. Undefined if the field has no message type, or if the type is from
 * google.protobuf.
 */
function ownTypeOf({ message: type }: DescField): DescMessage | undefined {
  return type?.typeName.startsWith("google.protobuf.") ? undefined : type;
}

const NO_TOKEN = {
  id: "no_token",
  message: "must not be a credential such as a token or a viewer session; send an id or a name",
};

/**
 * Creates a function that checks a field by the rules that protovalidate does not support. Returns undefined if the
 * field has no such rules.
 */
function checkOf(field: DescField, isCredential: IsCredential): ((value: unknown) => Fault | undefined) | undefined {
  if (hasOption(field, jsonRulesOption)) {
    const rules = getOption(field, jsonRulesOption);
    return (value) => jsonFault(value as JsonObject, rules);
  }
  const [isNoToken, mustBeVisible] = [getOption(field, noTokenOption), getOption(field, visibleOption)];
  if (isNoToken || mustBeVisible) {
    return (value) => {
      const hidden = mustBeVisible ? hiddenFault(value as string) : undefined;
      if (hidden !== undefined) return { id: "visible", message: hidden };
      return isNoToken && isCredential(value as string) ? NO_TOKEN : undefined;
    };
  }
  const { message: type } = field;
  const outOfRange = type && OUT_OF_RANGE.get(type.typeName);
  return outOfRange && ((value) => (hasJson(type, value as Message) ? undefined : outOfRange));
}

function fieldValue(message: Message, { localName, oneof }: DescField): unknown {
  const values = message as Message & Record<string, unknown>;
  if (!oneof) return values[localName];
  const { case: chosen, value } = values[oneof.localName] as { readonly case?: string; readonly value?: unknown };
  return chosen === localName ? value : undefined;
}

/**
 * The faults of invalid durations and times. The limits are 10,000 years for durations, and the years 1 to 9999 for
 * times. The JSON format enforces these limits, but the binary format does not.
 */
const OUT_OF_RANGE: ReadonlyMap<string, Fault> = new Map([
  [
    "google.protobuf.Duration",
    {
      id: "duration.valid",
      message: "must be a valid duration: nanos between -10^9 and 10^9, with the same sign as seconds",
    },
  ],
  [
    "google.protobuf.Timestamp",
    {
      id: "timestamp.valid",
      message: "must be a valid time in the years 1 to 9999, with nanos from 0 to 999999999",
    },
  ],
]);

/**
 * Returns whether protobuf-es can convert a message to JSON. invalid-numbers.test.ts tests the limits of durations and
 * times.
 */
function hasJson(desc: DescMessage, message: Message): boolean {
  try {
    toJson(desc, message);
    return true;
  } catch {
    return false;
  }
}

/**
 * Returns the first fault of a JSON object. A fault is a value that breaks a rule of the field, or a value that the
 * store cannot keep unchanged.
 */
function jsonFault(value: JsonObject, rules: JsonRules): Fault | undefined {
  const fault = walk(value, rules.maxDepth, rules.maxDepth);
  if (fault) return fault;
  const bytes = Buffer.byteLength(JSON.stringify(value));
  if (bytes <= rules.maxBytes) return undefined;
  return { id: "json.max_bytes", message: `must have at most ${rules.maxBytes} bytes of JSON; it has ${bytes}` };
}

function walk(value: Json, levelsLeft: number, maxDepth: number): Fault | undefined {
  // A lone surrogate cannot be stored as UTF-8. protobuf-es refuses lone surrogates in all fields except JSON objects,
  // so check the strings of JSON objects here.
  if (typeof value === "string" && !value.isWellFormed())
    return { id: "json.text", message: "must be well-formed Unicode; it contains a lone surrogate" };
  if (typeof value === "number" && !Number.isFinite(value))
    return { id: "json.finite", message: "must not contain NaN or infinite numbers; JSON has no such numbers" };
  if (typeof value === "number" && Math.abs(value) > Number.MAX_SAFE_INTEGER)
    return {
      id: "json.number",
      message: `must contain only numbers from -${Number.MAX_SAFE_INTEGER} to ${Number.MAX_SAFE_INTEGER}; send larger numbers as strings`,
    };
  if (typeof value !== "object" || value === null) return undefined;
  if (levelsLeft === 0) return { id: "json.max_depth", message: `must have at most ${maxDepth} levels` };
  for (const key of Array.isArray(value) ? value.keys() : Object.keys(value)) {
    const fault = walk(key, 0, maxDepth) ?? walk((value as JsonObject)[key] as Json, levelsLeft - 1, maxDepth);
    if (fault) return fault;
  }
  return undefined;
}

export const MAX_VIOLATIONS = 20;

/** The maximum length of a map key in an error, in UTF-16 units. Longer keys are truncated. */
export const MAX_QUOTED = 64;

/**
 * The maximum length of the description of a violation, in UTF-16 units. A description may quote a long value of the
 * request.
 */
const MAX_DESCRIPTION = 256;

/** The maximum size of an error in gRPC headers, in bytes. Many clients and proxies accept only 8 KiB of headers. */
export const MAX_ERROR_BYTES = 7 * 1024;

/**
 * Pairs of limits. The first number limits the violations in the detail BadRequest. The second number limits the
 * violations in the longer detail of protovalidate. The service uses the first pair that keeps the error within
 * `MAX_ERROR_BYTES`. If every pair makes the error too large, the service uses the last pair.
 */
const LISTED = [
  [MAX_VIOLATIONS, MAX_VIOLATIONS],
  [MAX_VIOLATIONS, 5],
  [10, 2],
  [5, 1],
  [1, 1],
] as const;

/**
 * Creates the error for a request with violations. The error details contain only the first violations, and long quotes
 * of the request are truncated. gRPC sends errors in headers, and clients close the connection if headers are too
 * large.
 */
function validationError(violations: readonly Violation[]): ConnectError {
  const first = violations.slice(0, MAX_VIOLATIONS).map(shortened);
  let error = new ConnectError("");
  for (const [listed, detailed] of LISTED) {
    error = listing(first.slice(0, listed), first.slice(0, detailed), violations.length);
    if (bytesOverGrpc(error) <= MAX_ERROR_BYTES) break;
  }
  return error;
}

function listing(listed: readonly Violation[], detailed: Violation[], total: number): ConnectError {
  const violations = listed.map((each) => ({ field: fieldPath(each.field), description: describe(each) }));
  // If a rule concerns the whole message, the violation has no field, but the description contains the field names.
  const lines = violations.map(({ field, description }) => (field === "" ? description : `${field}: ${description}`));
  const more = total - violations.length;
  if (more > 0) lines.push(`and ${more} more`);
  const error = callError(Code.InvalidArgument, lines.join("; "), { reason: "VALIDATION_FAILED", violations });
  const [value, desc] = violationsToProto(detailed);
  error.details.unshift({ desc, value });
  return error;
}

/** Returns the approximate size of an error in `grpc-message` and `grpc-status-details-bin`, in bytes. */
function bytesOverGrpc({ rawMessage, details }: ConnectError): number {
  let bytes = Buffer.byteLength(rawMessage);
  for (const detail of details) {
    if ("desc" in detail)
      bytes += detail.desc.typeName.length + toBinary(detail.desc, create(detail.desc, detail.value)).byteLength + 32;
  }
  return encodeURIComponent(rawMessage).length + Math.ceil((bytes * 4) / 3);
}

function shortened({ message, ruleId, field, rule, forKey }: Violation): Violation {
  const path = field.map((part) =>
    part.kind === "map_sub" && typeof part.key === "string" ? { ...part, key: cut(part.key, MAX_QUOTED) } : part,
  );
  return new Violation(cut(message, MAX_DESCRIPTION), ruleId, path, rule, forKey);
}

function cut(text: string, length: number): string {
  const kept = text.length <= length ? text : `${text.slice(0, length)}…`;
  return kept.toWellFormed();
}

const PATTERN_TEXTS: readonly (readonly [pattern: string, text: string])[] = [
  ["^[^\\x00-\\x1f\\x7f-\\x9f]*$", "must not contain control characters"],
  [
    "^[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}$",
    "must have 1 to 64 letters, digits, dots, underscores or hyphens, and not start with a dot",
  ],
  ["^https?://[A-Za-z0-9._:\\[\\]-]+$", "must be an origin such as https://app.example.com"],
  ["^[\\x21-\\x7e]*$", "must contain only visible ASCII characters and no spaces"],
];

function describe({ ruleId, message }: Violation): string {
  if (ruleId === "string.min_len" && message.includes(" 1 ")) return "must not be empty";
  if (ruleId !== "string.pattern") return message;
  return PATTERN_TEXTS.find(([pattern]) => message.includes(pattern))?.[1] ?? "contains invalid characters";
}

/** Formats a path with the field names of the proto files, such as `mapping["a"]`. */
function fieldPath(path: Path): string {
  const segments = path.map((part) => {
    if (part.kind === "list_sub") return `[${part.index}]`;
    if (part.kind === "map_sub") return `[${JSON.stringify(part.key)}]`;
    return part.kind === "extension" ? "" : `.${part.name}`;
  });
  return segments.join("").replace(/^\./, "");
}
