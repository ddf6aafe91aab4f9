import {
  type DescEnum,
  type DescField,
  type DescMessage,
  type DescOneof,
  getOption,
  hasOption,
  ScalarType,
} from "@bufbuild/protobuf";
import { FeatureSet_FieldPresence } from "@bufbuild/protobuf/wkt";
import { oneof as oneofRules } from "@bufbuild/protovalidate/gen/buf/validate/validate_pb.js";
import { describe } from "./descriptions.ts";
import { allows, type Choice, type FieldRulesReader, type JsonSchema, keywordsOf } from "./rules.ts";

export function refTo(name: string): JsonSchema {
  return { $ref: `#/components/schemas/${name}` };
}

/**
 * Creates the schemas of messages and enums in the canonical form of proto3 JSON
 * (https://protobuf.dev/programming-guides/json/). Fields are in lowerCamelCase, and enum values are names. Adds each
 * requested schema to `all`, together with all schemas that the requested schema uses.
 */
export class Schemas {
  private readonly components = new Map<string, JsonSchema>();
  private readonly rules: FieldRulesReader;

  constructor(rules: FieldRulesReader) {
    this.rules = rules;
  }

  get all(): { readonly [name: string]: JsonSchema } {
    const sorted = [...this.components].sort(([a], [b]) => (a < b ? -1 : 1));
    return Object.fromEntries(sorted);
  }

  /** @throws Error if a rule cannot be described */
  message(desc: DescMessage): JsonSchema {
    const known = wellKnown(desc);
    if (known) return known;
    return this.add(desc.typeName, () => this.object(desc));
  }

  private enumeration(desc: DescEnum): JsonSchema {
    return this.add(desc.typeName, () => ({
      type: "string",
      ...describe(desc, enumValueLines(desc)),
      enum: desc.values.map(({ name }) => name),
    }));
  }

  field(field: DescField): JsonSchema {
    const { enum: values, ...more } = { ...keywordsOf(field, this.rules.of(field)), ...describe(field) } as JsonSchema;
    // All fields of one enum type share one schema. But if the rules of a field refuse some values of the enum, the
    // field needs its own schema.
    if (values) return { type: "string", enum: values, ...more };
    const value = this.value(field);
    // If a schema has keywords beside `$ref`, client generators ignore these keywords, or fail.
    if ("$ref" in value && Object.keys(more).length > 0) return { allOf: [value], ...more };
    return { ...value, ...more };
  }

  private value(field: DescField): JsonSchema {
    switch (field.fieldKind) {
      case "list":
        return { type: "array", items: field.listKind === "scalar" ? scalar(field.scalar) : this.typeOf(field) };
      case "map":
        return {
          type: "object",
          additionalProperties: field.mapKind === "scalar" ? scalar(field.scalar) : this.typeOf(field),
        };
      case "scalar":
        return scalar(field.scalar);
      default:
        return this.typeOf(field);
    }
  }

  private typeOf({ message, enum: enumDesc }: DescField): JsonSchema {
    return message ? this.message(message) : this.enumeration(enumDesc as DescEnum);
  }

  private object(desc: DescMessage): JsonSchema {
    const required = desc.fields.filter((field) => this.isRequired(field)).map(({ jsonName }) => jsonName);
    const choices = [
      ...desc.oneofs.map(choiceOf),
      ...this.rules.choicesOf(desc).map((each) => this.choiceByRule(each)),
    ];
    if (choices.length > 1) throw new Error(`${desc.typeName} has several choices, which cannot be described`);
    return {
      type: "object",
      ...describe(desc),
      properties: Object.fromEntries(desc.fields.map((field) => [field.jsonName, this.field(field)])),
      ...(required.length > 0 && { required }),
      ...choices[0],
    };
  }

  /**
   * Returns whether a request must contain the field. The result is true if a rule requires the field. If a field has
   * no presence, an unset field has the default value. So the result is also true if the rules refuse this value.
   */
  private isRequired(field: DescField): boolean {
    const rules = this.rules.of(field);
    if (rules.field?.required) return true;
    return field.presence === FeatureSet_FieldPresence.IMPLICIT && !allows(field, rules);
  }

  /**
   * Returns the JSON schema keyword that describes a choice between fields. If a string field has no presence, an empty
   * string means that the field is unset.
   */
  private choiceByRule({ fields, isRequired }: Choice): JsonSchema {
    const wrong = fields.find(
      ({ presence, fieldKind, scalar }) =>
        presence === FeatureSet_FieldPresence.IMPLICIT && (fieldKind !== "scalar" || scalar !== ScalarType.STRING),
    );
    if (wrong)
      throw new Error(
        `${wrong.parent.typeName}.${wrong.name} cannot be a field of a choice, because the field is not a string`,
      );
    return choice(
      fields.map(({ jsonName }) => jsonName),
      isRequired,
    );
  }

  private add(name: string, make: () => JsonSchema): JsonSchema {
    if (!this.components.has(name)) {
      // Reserve the name before `make` runs, because a message can contain itself.
      this.components.set(name, {});
      this.components.set(name, make());
    }
    return refTo(name);
  }
}

/**
 * Returns the JSON schema keyword that describes a oneof. If the oneof is required, exactly one field is set. If the
 * oneof is optional, at most one field is set.
 */
function choiceOf(oneof: DescOneof): JsonSchema {
  const isRequired = hasOption(oneof, oneofRules) && getOption(oneof, oneofRules).required === true;
  return choice(
    oneof.fields.map(({ jsonName }) => jsonName),
    isRequired,
  );
}

/**
 * Returns a custom keyword for a choice between fields. JSON schema can describe a choice as `oneOf`, but client
 * generators do not support a `oneOf` whose parts only contain `required`.
 */
export function choice(names: readonly string[], isRequired: boolean): JsonSchema {
  return { [isRequired ? "x-exactly-one-of" : "x-at-most-one-of"]: names };
}

function enumValueLines({ values }: DescEnum): string[] {
  return values.flatMap((value) => {
    const { description } = describe(value);
    return description === undefined ? [] : [`- \`${value.name}\`: ${description.replaceAll("\n", " ")}`];
  });
}

/**
 * Returns the schema of a type of google.protobuf, because these types have special JSON forms. Returns undefined for
 * any other type.
 *
 * @throws Error if the type is in google.protobuf but has no schema in this file
 */
function wellKnown({ typeName }: DescMessage): JsonSchema | undefined {
  if (!typeName.startsWith("google.protobuf.")) return undefined;
  const schema = WELL_KNOWN[typeName];
  if (!schema) throw new Error(`${typeName} has no schema in scripts/openapi/schemas.ts: add one`);
  return schema;
}

const WELL_KNOWN: { readonly [typeName: string]: JsonSchema } = {
  "google.protobuf.Timestamp": {
    type: "string",
    // RFC 3339, with upper-case letters, and with at most nine decimals of a second.
    format: "date-time",
    examples: ["2027-01-31T12:00:00Z"],
  },
  "google.protobuf.Duration": {
    type: "string",
    pattern: "^-?\\d+(?:\\.\\d{1,9})?s$",
    examples: ["300s"],
  },
  "google.protobuf.FieldMask": {
    type: "string",
    // Names in lowerCamelCase, separated by commas.
    pattern: "^[^_]*$",
    examples: ["*"],
  },
  // Client generators do not support a type that contains itself.
  "google.protobuf.Struct": { type: "object", additionalProperties: {}, "x-exact-numbers": true },
};

function scalar(type: ScalarType): JsonSchema {
  switch (type) {
    case ScalarType.STRING:
      return { type: "string" };
    case ScalarType.BOOL:
      return { type: "boolean" };
    case ScalarType.INT32:
      return { type: "integer", format: "int32", minimum: -(2 ** 31), maximum: 2 ** 31 - 1 };
    case ScalarType.INT64:
      // The type is a string, because JavaScript numbers are exact only up to 2^53.
      return { type: "string", format: "int64", pattern: "^-?\\d+$" };
    default:
      throw new Error(`fields of type ${ScalarType[type]} have no schema in scripts/openapi/schemas.ts: add one`);
  }
}
