import type { Path } from "@bufbuild/protobuf/reflect";
import { ValidationError, Violation } from "@bufbuild/protovalidate";

/** A field of the request that is at fault; named as in the proto files. */
export interface FieldViolation {
  readonly field: string;
  readonly description: string;
}

/** How many of a request's violations are listed. */
export const MAX_VIOLATIONS = 20;

/** How much of a key is quoted, in UTF-16 units. */
const MAX_QUOTED = 64;

/** How long a description may be, in UTF-16 units; rules of the proto files may quote what was sent. */
const MAX_DESCRIPTION = 256;

/**
 * What a request is refused with: its first violations, and how many there are
 * in all. What was sent is quoted in part, for over gRPC an error travels in
 * header fields, and clients end connections over large ones.
 */
export class RequestInvalid extends ValidationError {
  /** How many there are, listed or not. */
  readonly total: number;

  constructor(violations: readonly Violation[]) {
    super(violations.slice(0, MAX_VIOLATIONS).map(shortened));
    this.total = violations.length;
  }
}

/** The violations in words of this service, by the names of the proto files. */
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

/** A text, or its beginning; halves of surrogate pairs are replaced. */
function cut(text: string, length: number): string {
  const kept = text.length <= length ? text : `${text.slice(0, length)}…`;
  return kept.toWellFormed();
}

/** What each pattern of the proto files asks for. */
const PATTERN_TEXTS: readonly (readonly [pattern: string, text: string])[] = [
  ["^[^\\x00-\\x1f\\x7f-\\x9f]*$", "must not hold control characters"],
  ["^[\\x21-\\x7e]*$", "must hold visible ASCII characters only, and no spaces"],
];

function describe({ ruleId, message }: Violation): string {
  if (ruleId === "string.min_len") return "must not be empty";
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
