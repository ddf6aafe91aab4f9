import { type DescField, type DescMessage, getOption, hasOption, type Message } from "@bufbuild/protobuf";
import type { Path } from "@bufbuild/protobuf/reflect";
import { createValidator, type Validator, Violation } from "@bufbuild/protovalidate";
import type { Interceptor } from "@connectrpc/connect";
import { createValidateInterceptor } from "@connectrpc/validate";
import { json as jsonRulesOption } from "../../gen/usergroup/v1/json_rules_pb.ts";
import type { JsonObject } from "../domain/user-group.ts";
import { firstFault, type JsonFault, jsonFault, textFault } from "./json-rules.ts";
import { oncePerType, regexMatch } from "./plain-text-rules.ts";
import { MAX_VIOLATIONS, validationError } from "./violations.ts";

/** Checks requests against all rules: protovalidate's, and those that it does not have. */
export function allRulesInterceptor(): Interceptor {
  return createValidateInterceptor({ validator: withJsonRules(createValidator({ regexMatch })) });
}

/**
 * Adds the rules that protovalidate does not have to a validator. It throws the error for the caller: of violations that
 * it returned the interceptor would make another one.
 */
function withJsonRules(validator: Validator): Validator {
  return {
    validate(desc, message) {
      const result = validator.validate(desc, message);
      if (result.kind === "error") return result;
      const violations = result.kind === "invalid" ? [...result.violations] : [];
      addViolations(violations, desc, message, []);
      if (violations.length > 0) throw validationError(violations);
      return { kind: "valid", message: message as never, error: undefined, violations: undefined };
    },
  };
}

/** Adds the violations in a field's value. @param parent the path of the field's message */
type AddViolations = (violations: Violation[], value: unknown, parent: Path) => void;

const fieldChecks = oncePerType((desc) =>
  desc.fields.flatMap((field) => {
    const add = checkOf(field);
    return add ? [{ field, add }] : [];
  }),
);

function addViolations(violations: Violation[], desc: DescMessage, message: Message, path: Path): void {
  for (const { field, add } of fieldChecks(desc)) {
    const value = fieldValue(message, field);
    if (value !== undefined) add(violations, value, path);
  }
}

/** The check of a field; undefined for one that can break no rule. */
function checkOf(field: DescField): AddViolations | undefined {
  const first =
    <T>(find: (value: T) => JsonFault | undefined): AddViolations =>
    (violations, value, parent) => {
      const fault = find(value as T);
      if (fault) violations.push(new Violation(fault.message, fault.id, [...parent, field], [], false));
    };
  switch (field.fieldKind) {
    case "scalar":
      return first(valueFault);
    case "map":
      return first(mapFault);
    case "list": {
      if (field.listKind !== "message") return first((values: readonly unknown[]) => firstFault(values, valueFault));
      const { message: type } = field;
      return (violations, messages, parent) => {
        const before = violations.length;
        for (const [index, message] of (messages as readonly Message[]).entries()) {
          addViolations(violations, type, message, [...parent, field, { kind: "list_sub", index }]);
          // No more are listed of a request.
          if (violations.length - before > MAX_VIOLATIONS) break;
        }
      };
    }
    case "message": {
      if (hasOption(field, jsonRulesOption)) {
        const rules = getOption(field, jsonRulesOption);
        return first((value: JsonObject) => jsonFault(value, rules));
      }
      const { message: type } = field;
      if (type.typeName.startsWith("google.protobuf.")) return undefined;
      return (violations, message, parent) => addViolations(violations, type, message as Message, [...parent, field]);
    }
    default:
      return undefined;
  }
}

function fieldValue(message: Message, { localName, oneof }: DescField): unknown {
  const values = message as Message & Record<string, unknown>;
  if (!oneof) return values[localName];
  const { case: chosen, value } = values[oneof.localName] as { readonly case?: string; readonly value?: unknown };
  return chosen === localName ? value : undefined;
}

function valueFault(value: unknown): JsonFault | undefined {
  return typeof value === "string" ? textFault(value) : undefined;
}

function mapFault(map: Record<string, unknown>): JsonFault | undefined {
  return firstFault(Object.keys(map), (key) => textFault(key) ?? valueFault(map[key]));
}
