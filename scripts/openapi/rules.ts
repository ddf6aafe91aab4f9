import {
  type DescExtension,
  type DescField,
  type DescMessage,
  getOption,
  hasOption,
  isFieldSet,
  type Message,
  type Registry,
} from "@bufbuild/protobuf";
import { durationMs } from "@bufbuild/protobuf/wkt";
import {
  DurationRulesSchema,
  EnumRulesSchema,
  type FieldRules,
  FieldRulesSchema,
  field as fieldRules,
  Int32RulesSchema,
  MapRulesSchema,
  MessageOneofRuleSchema,
  MessageRulesSchema,
  message as messageRules,
  RepeatedRulesSchema,
  type StringRules,
  StringRulesSchema,
  TimestampRulesSchema,
} from "@bufbuild/protovalidate/gen/buf/validate/validate_pb.js";

/** A JSON schema (draft 2020-12), as in OpenAPI 3.1. */
export type JsonSchema = { readonly [keyword: string]: unknown };

interface JsonRules {
  readonly maxBytes: number;
  readonly maxDepth: number;
}

interface Rules {
  readonly field: FieldRules | undefined;
  readonly json: JsonRules | undefined;
  readonly isNoToken: boolean;
  readonly isVisible: boolean;
}

/** A message may set at most one of these fields. If `isRequired` is true, a message must set exactly one of them. */
export interface Choice {
  readonly fields: readonly DescField[];
  readonly isRequired: boolean;
}

/** Reads the rules of protovalidate and of this service for fields and messages. */
export class FieldRulesReader {
  private readonly json: DescExtension | undefined;
  private readonly noToken: DescExtension | undefined;
  private readonly visible: DescExtension | undefined;

  /** @param registry must contain usergroup/v1/json_rules.proto if a field has a rule from that proto file */
  constructor(registry: Registry) {
    this.json = registry.getExtension("usergroup.v1.json");
    this.noToken = registry.getExtension("usergroup.v1.no_token");
    this.visible = registry.getExtension("usergroup.v1.visible");
  }

  of(field: DescField): Rules {
    return {
      field: optionOf<FieldRules>(field, fieldRules),
      json: optionOf<JsonRules>(field, this.json),
      isNoToken: optionOf<boolean>(field, this.noToken) === true,
      isVisible: optionOf<boolean>(field, this.visible) === true,
    };
  }

  /** Returns the choices in the rules of a message. @throws Error if the message has any other rule */
  choicesOf(desc: DescMessage): readonly Choice[] {
    if (!hasOption(desc, messageRules)) return [];
    const rules = getOption(desc, messageRules);
    const where = desc.typeName;
    requireOnly(rules, MessageRulesSchema, { where, known: ["oneof"] });
    return rules.oneof.map((rule) => {
      requireOnly(rule, MessageOneofRuleSchema, { where, known: ["fields", "required"] });
      return { fields: desc.fields.filter(({ name }) => rule.fields.includes(name)), isRequired: rule.required };
    });
  }
}

function optionOf<T>(field: DescField, extension: DescExtension | undefined): T | undefined {
  return extension && hasOption(field, extension) ? (getOption(field, extension) as T) : undefined;
}

/**
 * Returns the rules of a field as keywords of JSON schema. document.ts describes the keywords that are not standard.
 *
 * @throws Error if a rule has no keyword
 */
export function keywordsOf(field: DescField, { field: rules, json, isNoToken, isVisible }: Rules): JsonSchema {
  return {
    ...(rules && fieldKeywords(rules, field)),
    ...(json && { "x-max-bytes": json.maxBytes, "x-max-depth": json.maxDepth }),
    ...(isNoToken && { "x-no-token": true }),
    ...(isVisible && { "x-visible": true }),
  };
}

function fieldKeywords(rules: FieldRules, { parent, name, enum: enumDesc }: DescField): JsonSchema {
  const where = `${parent.typeName}.${name}`;
  const { case: kind, value } = rules.type;
  requireOnly(rules, FieldRulesSchema, { where, known: ["required", ...(kind === undefined ? [] : [kind])] });
  switch (kind) {
    case undefined:
      return {};
    case "string":
      return textKeywords(value, where);
    case "int32":
      requireOnly(value, Int32RulesSchema, { where, known: ["lte", "gte"] });
      return {
        ...(value.greaterThan.case === "gte" && { minimum: value.greaterThan.value }),
        ...(value.lessThan.case === "lte" && { maximum: value.lessThan.value }),
      };
    case "enum":
      // `defined_only` needs no keyword, because JSON uses the names of enum values.
      requireOnly(value, EnumRulesSchema, { where, known: ["definedOnly", "notIn"] });
      if (value.notIn.length === 0 || !enumDesc) return {};
      return { enum: enumDesc.values.filter(({ number }) => !value.notIn.includes(number)).map(({ name }) => name) };
    case "repeated":
      requireOnly(value, RepeatedRulesSchema, { where, known: ["minItems", "maxItems"] });
      return {
        ...(value.minItems > 0n && { minItems: Number(value.minItems) }),
        ...(isFieldSet(value, RepeatedRulesSchema.field.maxItems) && { maxItems: Number(value.maxItems) }),
      };
    case "map":
      requireOnly(value, MapRulesSchema, { where, known: ["maxPairs", "keys", "values"] });
      return {
        ...(isFieldSet(value, MapRulesSchema.field.maxPairs) && { maxProperties: Number(value.maxPairs) }),
        ...(value.keys && { propertyNames: partKeywords(value.keys, where) }),
        ...(value.values && { additionalProperties: { type: "string", ...partKeywords(value.values, where) } }),
      };
    case "duration":
      requireOnly(value, DurationRulesSchema, { where, known: ["lte", "gte"] });
      return {
        ...(value.greaterThan.case === "gte" && { "x-min-seconds": durationMs(value.greaterThan.value) / 1000 }),
        ...(value.lessThan.case === "lte" && { "x-max-seconds": durationMs(value.lessThan.value) / 1000 }),
      };
    case "timestamp":
      requireOnly(value, TimestampRulesSchema, { where, known: ["gtNow"] });
      return value.greaterThan.case === "gtNow" && value.greaterThan.value ? { "x-in-future": true } : {};
    default:
      throw unknownRule(where, kind);
  }
}

function partKeywords(rules: FieldRules, where: string): JsonSchema {
  requireOnly(rules, FieldRulesSchema, { where, known: ["string"] });
  return rules.type.case === "string" ? textKeywords(rules.type.value, where) : {};
}

/** JSON schema and protovalidate both count code points, so the keywords have the same limits as the rules. */
function textKeywords(rules: StringRules, where: string): JsonSchema {
  const { field } = StringRulesSchema;
  requireOnly(rules, StringRulesSchema, { where, known: ["minLen", "maxLen", "pattern"] });
  return {
    ...(rules.minLen > 0n && { minLength: Number(rules.minLen) }),
    ...(isFieldSet(rules, field.maxLen) && { maxLength: Number(rules.maxLen) }),
    ...(isFieldSet(rules, field.pattern) && { pattern: rules.pattern }),
  };
}

/**
 * Returns whether the rules of a field accept the default value of the field. The default value is an empty string or
 * list, zero, or the first enum value.
 */
export function allows({ fieldKind }: DescField, { field: rules }: Rules): boolean {
  const type = rules?.type;
  if (fieldKind === "list") return type?.case !== "repeated" || type.value.minItems === 0n;
  switch (type?.case) {
    case "string":
      return type.value.minLen === 0n && new RegExp(type.value.pattern, "u").test("");
    case "int32": {
      const { greaterThan, lessThan } = type.value;
      return !(greaterThan.case === "gte" && greaterThan.value > 0) && !(lessThan.case === "lte" && lessThan.value < 0);
    }
    case "enum":
      return !type.value.notIn.includes(0);
    default:
      return true;
  }
}

/** @throws Error if `rules` sets a rule that is not in `known`. The document would not contain such a rule */
function requireOnly(
  rules: Message,
  desc: DescMessage,
  { where, known }: { readonly where: string; readonly known: readonly string[] },
): void {
  const unknown = desc.fields.find((field) => !known.includes(field.localName) && isFieldSet(rules, field));
  if (unknown) throw unknownRule(where, unknown.name);
}

function unknownRule(where: string, rule: string): Error {
  return new Error(`${where} has the rule \`${rule}\`, but scripts/openapi/rules.ts has no keyword for it: add one`);
}
