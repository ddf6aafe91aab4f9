import { type DescField, type DescMessage, getOption, hasOption, type Message } from "@bufbuild/protobuf";
import type { Path } from "@bufbuild/protobuf/reflect";
import { createValidator, type Validator, Violation } from "@bufbuild/protovalidate";
import type { Interceptor } from "@connectrpc/connect";
import { createValidateInterceptor } from "@connectrpc/validate";
import { json as jsonRulesOption } from "../../gen/usergroup/v1/json_rules_pb.ts";
import type { JsonObject } from "../domain/user-group.ts";
import { firstFault, type JsonFault, jsonFault, textFault } from "./json-rules.ts";
import { compilePlainTextCheck } from "./plain-text-rules.ts";
import { MAX_VIOLATIONS, RequestInvalid } from "./violations.ts";

/**
 * Refuses requests that break a rule of the proto files: protovalidate's rules, this service's `json` rules, and the
 * rule that every text is well-formed Unicode.
 */
export function validationInterceptor(): Interceptor {
  return createValidateInterceptor({ validator: withJsonRules(createValidator({ regexMatch })) });
}

/** A fault of a request, and where it is. */
type Fault = JsonFault & { readonly path: Path };

/** Finds the faults of a field's value, with paths that begin at the field. */
type FieldCheck = { readonly field: DescField; readonly check: (value: unknown) => readonly Fault[] };

/** Adds the rules that protovalidate does not have to a validator, and spares it plain messages. */
function withJsonRules(validator: Validator): Validator {
  const plainCheck = oncePerType((desc) => compilePlainTextCheck(desc, regexMatch));
  return {
    validate(desc, message) {
      const result = plainCheck(desc)(message) ? undefined : validator.validate(desc, message);
      if (result?.kind === "error") return result;
      const faults = faultsOf(desc, message);
      if (result?.kind !== "invalid" && faults.length === 0)
        return { kind: "valid", message: message as never, error: undefined, violations: undefined };
      const violations = result?.kind === "invalid" ? [...result.violations] : [];
      for (const { id, message: text, path } of faults) violations.push(new Violation(text, id, path, [], false));
      const error = new RequestInvalid(violations);
      return { kind: "invalid", message, error, violations: error.violations };
    },
  };
}

/** Compiles something of a message type's annotations when it is first needed. */
function oncePerType<T>(compile: (desc: DescMessage) => T): (desc: DescMessage) => T {
  const known = new Map<DescMessage, T>();
  return (desc) => {
    let compiled = known.get(desc);
    if (compiled === undefined) {
      compiled = compile(desc);
      known.set(desc, compiled);
    }
    return compiled;
  };
}

const fieldChecks = oncePerType((desc) => desc.fields.flatMap(checkOf));

const NONE: readonly Fault[] = [];

function faultsOf(desc: DescMessage, message: Message): readonly Fault[] {
  let faults = NONE;
  for (const { field, check } of fieldChecks(desc)) {
    const value = fieldValue(message, field);
    const found = value === undefined ? NONE : check(value);
    if (found.length > 0) faults = [...faults, ...found];
  }
  return faults;
}

function checkOf(field: DescField): FieldCheck[] {
  const first = (find: (value: never) => JsonFault | undefined): FieldCheck[] => [
    {
      field,
      check: (value) => {
        const fault = find(value as never);
        return fault ? [{ ...fault, path: [field] }] : NONE;
      },
    },
  ];
  switch (field.fieldKind) {
    case "scalar":
      return first(valueFault);
    case "map":
      return first(mapFault);
    case "list":
      return field.listKind === "message"
        ? [{ field, check: (value) => ofElements(field, field.message, value as readonly Message[]) }]
        : first((values: readonly unknown[]) => firstFault(values, valueFault));
    case "message": {
      if (hasOption(field, jsonRulesOption)) {
        const rules = getOption(field, jsonRulesOption);
        return first((value: JsonObject) => jsonFault(value, rules));
      }
      const { message: type } = field;
      if (type.typeName.startsWith("google.protobuf.")) return [];
      return [{ field, check: (value) => within([field], faultsOf(type, value as Message)) }];
    }
    default:
      return [];
  }
}

/** The faults of the messages of a list, as many as are listed of a request. */
function ofElements(field: DescField & { fieldKind: "list" }, type: DescMessage, messages: readonly Message[]) {
  const faults: Fault[] = [];
  for (const [index, message] of messages.entries()) {
    faults.push(...within([field, { kind: "list_sub", index }], faultsOf(type, message)));
    if (faults.length > MAX_VIOLATIONS) break;
  }
  return faults;
}

function within(start: Path, faults: readonly Fault[]): readonly Fault[] {
  return faults.length === 0 ? faults : faults.map((fault) => ({ ...fault, path: [...start, ...fault.path] }));
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
