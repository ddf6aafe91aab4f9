import {
  type DescField,
  type DescMessage,
  getOption,
  hasOption,
  isFieldSet,
  type Message,
  ScalarType,
} from "@bufbuild/protobuf";
import { FeatureSet_FieldPresence } from "@bufbuild/protobuf/wkt";
// All rules that there are, for proto/buf/validate has those alone that this service uses.
import {
  type FieldRules,
  FieldRulesSchema,
  field as fieldRulesOption,
  MapRulesSchema,
  message as messageRulesOption,
  OneofRulesSchema,
  oneof as oneofRulesOption,
  type StringRules,
  StringRulesSchema,
} from "@bufbuild/protovalidate/gen/buf/validate/validate_pb.js";

/** Whether a value surely keeps its rules; false when it takes protovalidate to tell. A field that is not set is undefined. */
type IsSure = (value: unknown) => boolean;

/** Whether a text matches a pattern. */
type Matches = (pattern: string, text: string) => boolean;

const always: IsSure = () => true;
const never: IsSure = () => false;

/**
 * Makes a check from the annotations of a message type that tells the plainly
 * valid messages, which nearly all are, from those that protovalidate has to
 * look at. It never takes an invalid one for valid: what is not on its list of
 * rules and of types without rules goes to protovalidate.
 */
export function compileSureCheck(desc: DescMessage, matches: Matches): (message: Message) => boolean {
  if (hasOption(desc, messageRulesOption)) return never;
  const fields = desc.fields
    .filter(({ oneof }) => oneof === undefined)
    .map((field) => ({ name: field.localName, isSure: fieldCheck(field, matches) }));
  const oneofs = desc.oneofs.map((oneof) => {
    const rules = hasOption(oneof, oneofRulesOption) ? getOption(oneof, oneofRulesOption) : undefined;
    return {
      name: oneof.localName,
      isKnown: rules === undefined || hasOnly(rules, OneofRulesSchema, ["required"]),
      // Whether none of the fields may be set is the oneof's own rule.
      isUnsetSure: rules === undefined,
      checks: oneof.fields.map((field) => ({ name: field.localName, isSure: fieldCheck(field, matches) })),
    };
  });
  if (oneofs.some(({ isKnown }) => !isKnown)) return never;
  return (message) => {
    const values = message as unknown as { readonly [name: string]: unknown };
    for (const { name, isSure } of fields) if (!isSure(values[name])) return false;
    for (const { name, isUnsetSure, checks } of oneofs) {
      const { case: chosen, value } = values[name] as { readonly case?: string; readonly value?: unknown };
      if (chosen === undefined && !isUnsetSure) return false;
      // A rule may ask something of a field that is not chosen, too.
      for (const { name: field, isSure } of checks) if (!isSure(field === chosen ? value : undefined)) return false;
    }
    return true;
  };
}

function fieldCheck(field: DescField, matches: Matches): IsSure {
  if (field.presence === FeatureSet_FieldPresence.LEGACY_REQUIRED) return never;
  const rules = hasOption(field, fieldRulesOption) ? getOption(field, fieldRulesOption) : undefined;
  if (rules === undefined) return field.message === undefined || isFree(field.message) ? always : isEmpty;
  switch (field.fieldKind) {
    case "scalar":
      return unsetOr(scalarCheck(field.scalar, rules, matches));
    case "map":
      return mapCheck(field, rules, matches);
    case "message":
      // Such rules ask nothing of a field that is not set.
      return field.message.typeName === "google.protobuf.Duration" && hasOnly(rules, FieldRulesSchema, ["duration"])
        ? isEmpty
        : never;
    default:
      return never;
  }
}

/** The rules of a text ask nothing of a field that is not set; `never` means that some other may. */
function unsetOr(isSure: IsSure): IsSure {
  return isSure === never ? never : (value) => value === undefined || isSure(value);
}

function scalarCheck(type: ScalarType, rules: FieldRules | undefined, matches: Matches): IsSure {
  if (rules === undefined) return always;
  if (type !== ScalarType.STRING || !hasOnly(rules, FieldRulesSchema, ["string"])) return never;
  return rules.type.case === "string" ? stringCheck(rules.type.value, matches) : always;
}

function stringCheck(rules: StringRules, matches: Matches): IsSure {
  if (!hasOnly(rules, StringRulesSchema, ["minLen", "maxLen", "pattern"])) return never;
  const { field } = StringRulesSchema;
  const min = Number(rules.minLen);
  const max = isFieldSet(rules, field.maxLen) ? Number(rules.maxLen) : Number.POSITIVE_INFINITY;
  const pattern = isFieldSet(rules, field.pattern) ? rules.pattern : undefined;
  return (text) => {
    if (typeof text !== "string") return false;
    // A text has at most as many characters as UTF-16 units, and at least half as many.
    if (text.length > max || Math.ceil(text.length / 2) < min) return false;
    return pattern === undefined || matches(pattern, text);
  };
}

function mapCheck(field: DescField & { fieldKind: "map" }, rules: FieldRules, matches: Matches): IsSure {
  if (!hasOnly(rules, FieldRulesSchema, ["map"]) || field.mapKind !== "scalar") return never;
  if (rules.type.case !== "map") return always;
  const { value: mapRules } = rules.type;
  if (!hasOnly(mapRules, MapRulesSchema, ["maxPairs", "keys", "values"])) return never;
  const isKeySure = scalarCheck(field.mapKey, mapRules.keys, matches);
  const isValueSure = scalarCheck(field.scalar, mapRules.values, matches);
  if (isKeySure === never || isValueSure === never) return never;
  const max = isFieldSet(mapRules, MapRulesSchema.field.maxPairs)
    ? Number(mapRules.maxPairs)
    : Number.POSITIVE_INFINITY;
  return (value) => {
    const map = value as { readonly [key: string]: unknown };
    const keys = Object.keys(map);
    return keys.length <= max && keys.every((key) => isKeySure(key) && isValueSure(map[key]));
  };
}

/** Whether nothing is in a field of messages, none of whose rules apply then. */
const isEmpty: IsSure = (value) => {
  if (value === undefined) return true;
  if (Array.isArray(value)) return value.length === 0;
  return typeof value === "object" && value !== null && !("$typeName" in value) && Object.keys(value).length === 0;
};

/** Whether of all fields of some rules, those of later versions and extensions included, none but these are set. */
function hasOnly(rules: Message, desc: DescMessage, names: readonly string[]): boolean {
  if ((rules.$unknown?.length ?? 0) > 0) return false;
  return desc.fields.every((field) => names.includes(field.localName) || !isFieldSet(rules, field));
}

/** Whether the messages of a type can break no rule, because none of it or in it has any. */
function isFree(desc: DescMessage, seen: Set<DescMessage> = new Set()): boolean {
  if (seen.has(desc)) return true;
  seen.add(desc);
  if (hasOption(desc, messageRulesOption) || desc.oneofs.some((oneof) => hasOption(oneof, oneofRulesOption)))
    return false;
  return desc.fields.every(
    (field) =>
      field.presence !== FeatureSet_FieldPresence.LEGACY_REQUIRED &&
      !hasOption(field, fieldRulesOption) &&
      (field.message === undefined || isFree(field.message, seen)),
  );
}
