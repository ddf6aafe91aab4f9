import { type DescField, type DescMessage, getOption, hasOption, type Message } from "@bufbuild/protobuf";
import { createValidator, type Validator, Violation } from "@bufbuild/protovalidate";
import type { Interceptor } from "@connectrpc/connect";
import { createValidateInterceptor } from "@connectrpc/validate";
import { json as jsonRulesOption } from "../../gen/usergroup/v1/json_rules_pb.ts";
import type { JsonObject } from "../domain/user-group.ts";
import { firstFault, type JsonFault, jsonFault, textFault } from "./json-rules.ts";
import { compilePlainTextCheck } from "./plain-text-rules.ts";
import { RequestInvalid } from "./violations.ts";

/**
 * Refuses requests that break a rule of the proto files: protovalidate's rules, this service's `json` rules, and the
 * rule that every text is well-formed Unicode.
 */
export function validationInterceptor(): Interceptor {
  return createValidateInterceptor({ validator: withJsonRules(createValidator({ regexMatch })) });
}

type FieldCheck = { readonly field: DescField; readonly check: (value: unknown) => JsonFault | undefined };

/** The checks of a message type, compiled once from its annotations. */
interface MessageChecks {
  /** Whether a message needs no protovalidate. */
  readonly isPlain: (message: Message) => boolean;
  readonly fieldChecks: readonly FieldCheck[];
}

/** Adds the rules that protovalidate does not have to a validator, and spares it plain messages. */
function withJsonRules(validator: Validator): Validator {
  const known = new Map<DescMessage, MessageChecks>();
  return {
    validate(desc, message) {
      let checks = known.get(desc);
      if (!checks) {
        checks = { isPlain: compilePlainTextCheck(desc, regexMatch), fieldChecks: desc.fields.flatMap(checkOf) };
        known.set(desc, checks);
      }
      const { isPlain, fieldChecks } = checks;
      const result = isPlain(message) ? undefined : validator.validate(desc, message);
      if (result?.kind === "error") return result;
      const violations = result?.kind === "invalid" ? [...result.violations] : [];
      for (const { field, check } of fieldChecks) {
        const value = fieldValue(message, field);
        const fault = value === undefined ? undefined : check(value);
        if (fault) violations.push(new Violation(fault.message, fault.id, [field], [], false));
      }
      if (violations.length === 0)
        return { kind: "valid", message: message as never, error: undefined, violations: undefined };
      const error = new RequestInvalid(violations);
      return { kind: "invalid", message, error, violations: error.violations };
    },
  };
}

function checkOf(field: DescField): FieldCheck[] {
  if (field.fieldKind === "message" && hasOption(field, jsonRulesOption)) {
    const rules = getOption(field, jsonRulesOption);
    return [{ field, check: (value) => jsonFault(value as JsonObject, rules) }];
  }
  if (field.fieldKind === "map") return [{ field, check: (value) => mapFault(value as Record<string, unknown>) }];
  if (field.fieldKind === "list")
    return [{ field, check: (value) => firstFault(value as readonly unknown[], valueFault) }];
  return field.fieldKind === "scalar" ? [{ field, check: valueFault }] : [];
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

const compiled = new Map<string, RegExp>();

/**
 * Matches a text against a pattern of the proto files. Each pattern is one character class between anchors, so the
 * runtime's RegExp matches it in linear time.
 */
export function regexMatch(pattern: string, against: string): boolean {
  let regExp = compiled.get(pattern);
  if (!regExp) {
    regExp = new RegExp(pattern, "u");
    compiled.set(pattern, regExp);
  }
  return regExp.test(against);
}
