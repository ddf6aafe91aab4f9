import type { Path } from "@bufbuild/protobuf/reflect";
import { ValidationError, Violation } from "@bufbuild/protovalidate";

/** An invalid field of a request, by its name in the proto files. */
export interface FieldViolation {
  readonly field: string;
  readonly description: string;
}

/** How many violations of a request are listed. */
export const MAX_VIOLATIONS = 20;

/** How much of a map key is quoted, in UTF-16 units. */
const MAX_QUOTED = 64;

/** The maximum length of a description, in UTF-16 units. Messages of proto rules may quote the request. */
const MAX_DESCRIPTION = 256;

/**
 * The error for an invalid request: its first violations, and their total number. Quotes from the request are
 * truncated, because gRPC sends errors in headers, and clients close connections over large headers.
 */
export class RequestInvalid extends ValidationError {
  /** The number of violations, including those that are not listed. */
  readonly total: number;

  constructor(violations: readonly Violation[]) {
    super(violations.slice(0, MAX_VIOLATIONS).map(shortened));
    this.total = violations.length;
  }
}

/** Converts violations to this service's descriptions and the field names of the proto files. */
export function fieldViolations(violations: readonly Violation[]): FieldViolation[] {
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
