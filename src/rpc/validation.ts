import { type DescField, type DescMessage, getOption, hasOption, type Message } from "@bufbuild/protobuf";
import type { Path } from "@bufbuild/protobuf/reflect";
import { createValidator, ValidationError, type Validator, Violation } from "@bufbuild/protovalidate";
import type { Interceptor } from "@connectrpc/connect";
import { createValidateInterceptor } from "@connectrpc/validate";
import { json as jsonRulesOption } from "../../gen/usergroup/v1/json_rules_pb.ts";
import type { JsonObject } from "../domain/user-group.ts";
import { type JsonFault, jsonFault, textFault } from "./json-rules.ts";
import { compileSureCheck } from "./sure-rules.ts";

/** A field of the request that is at fault; named as in the proto files. */
export interface FieldViolation {
  readonly field: string;
  readonly description: string;
}

/**
 * Refuses requests that break a rule of the proto files: those of
 * protovalidate, the `json` rules of this service, and that every text is
 * well-formed Unicode.
 */
export function validationInterceptor(): Interceptor {
  return createValidateInterceptor({ validator: withJsonRules(createValidator({ regexMatch })) });
}

/** The fields at fault that a refusal of the interceptor above names, by the names of the proto files. */
export function violationsOfRefusal(cause: unknown): FieldViolation[] | undefined {
  if (!(cause instanceof ValidationError)) return undefined;
  return cause.violations.map((violation) => ({ field: fieldPath(violation.field), description: describe(violation) }));
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

type FieldCheck = { readonly field: DescField; readonly check: (value: unknown) => JsonFault | undefined };

/** What is made once of the annotations of a message type. */
interface MessageChecks {
  /** Whether protovalidate need not look at a message. */
  readonly isSure: (message: Message) => boolean;
  readonly fieldChecks: readonly FieldCheck[];
}

/** A validator that also knows what protovalidate has no rule for. */
function withJsonRules(validator: Validator): Validator {
  const known = new Map<DescMessage, MessageChecks>();
  return {
    validate(desc, message) {
      let checks = known.get(desc);
      if (!checks) {
        checks = { isSure: compileSureCheck(desc, regexMatch), fieldChecks: desc.fields.flatMap(checkOf) };
        known.set(desc, checks);
      }
      const { isSure, fieldChecks } = checks;
      const result = isSure(message) ? undefined : validator.validate(desc, message);
      if (result?.kind === "error") return result;
      const violations = result?.kind === "invalid" ? [...result.violations] : [];
      for (const { field, check } of fieldChecks) {
        const value = (message as Message & Record<string, unknown>)[field.localName];
        const fault = value === undefined ? undefined : check(value);
        if (fault) violations.push(new Violation(fault.message, fault.id, [field], [], false));
      }
      if (violations.length === 0) {
        return result ?? { kind: "valid", message: message as never, error: undefined, violations: undefined };
      }
      return { kind: "invalid", message, error: new ValidationError(violations), violations };
    },
  };
}

function checkOf(field: DescField): FieldCheck[] {
  if (field.fieldKind === "message" && hasOption(field, jsonRulesOption)) {
    const rules = getOption(field, jsonRulesOption);
    return [{ field, check: (value) => jsonFault(value as JsonObject, rules) }];
  }
  if (field.fieldKind === "map") return [{ field, check: (value) => mapFault(value as Record<string, unknown>) }];
  if (field.fieldKind === "scalar")
    return [{ field, check: (value) => (typeof value === "string" ? textFault(value) : undefined) }];
  return [];
}

function mapFault(map: Record<string, unknown>): JsonFault | undefined {
  for (const key of Object.keys(map)) {
    const value = map[key];
    const fault = textFault(key) ?? (typeof value === "string" ? textFault(value) : undefined);
    if (fault) return fault;
  }
  return undefined;
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

const compiled = new Map<string, RegExp>();

/**
 * The patterns are constants of the proto files, each one character class
 * between anchors, which the runtime's RegExp matches in linear time.
 */
export function regexMatch(pattern: string, against: string): boolean {
  let regExp = compiled.get(pattern);
  if (!regExp) {
    regExp = new RegExp(pattern, "u");
    compiled.set(pattern, regExp);
  }
  return regExp.test(against);
}
