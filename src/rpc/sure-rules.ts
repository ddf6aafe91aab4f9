import { type DescField, type DescMessage, getOption, hasOption, type Message } from "@bufbuild/protobuf";
import {
  type FieldRules,
  field as fieldRulesOption,
  oneof as oneofRulesOption,
  type StringRules,
} from "../../gen/buf/validate/validate_pb.ts";

/** Whether a value surely keeps its rules; false when it takes protovalidate to tell. */
type IsSure = (value: never) => boolean;

/**
 * Makes a check from the annotations of a message type that tells the plainly
 * valid messages, which nearly all are, from those that protovalidate has to
 * look at. It never takes an invalid one for valid.
 *
 * @param matches whether a text matches a pattern
 */
export function compileSureCheck(
  desc: DescMessage,
  matches: (pattern: string, text: string) => boolean,
): (message: Message) => boolean {
  const fields = desc.fields
    .filter(({ oneof }) => oneof === undefined)
    .map((field) => ({
      name: field.localName,
      isSure: fieldCheck(field, matches),
    }));
  const oneofs = desc.oneofs.map((oneof) => ({
    name: oneof.localName,
    // Whether none of the fields may be set is the oneof's own rule.
    isUnsetSure: !hasOption(oneof, oneofRulesOption),
    checks: new Map(oneof.fields.map((field) => [field.localName, fieldCheck(field, matches)])),
  }));
  return (message) => {
    const values = message as unknown as { readonly [name: string]: unknown };
    for (const { name, isSure } of fields) {
      const value = values[name];
      if (value !== undefined && !isSure(value as never)) return false;
    }
    for (const { name, isUnsetSure, checks } of oneofs) {
      const { case: chosen, value } = values[name] as { readonly case?: string; readonly value?: unknown };
      if (chosen === undefined ? !isUnsetSure : !checks.get(chosen)?.(value as never)) return false;
    }
    return true;
  };
}

function fieldCheck(field: DescField, matches: (pattern: string, text: string) => boolean): IsSure {
  const rules = hasOption(field, fieldRulesOption) ? getOption(field, fieldRulesOption) : undefined;
  if (!rules) return field.fieldKind === "message" && !isFree(field.message) ? () => false : () => true;
  if (rules.type.case === "string") return stringCheck(rules.type.value, matches);
  if (rules.type.case !== "map" || field.fieldKind !== "map") return () => false;
  const { maxPairs, keys, values } = rules.type.value;
  const isKeySure = entryCheck(keys, matches);
  const isValueSure = entryCheck(values, matches);
  return (map: { readonly [key: string]: never }) => {
    const entries = Object.keys(map);
    if (maxPairs !== 0n && entries.length > maxPairs) return false;
    return entries.every((key) => isKeySure(key as never) && isValueSure(map[key] as never));
  };
}

function entryCheck(rules: FieldRules | undefined, matches: (pattern: string, text: string) => boolean): IsSure {
  if (rules === undefined || rules.type.case === undefined) return () => true;
  return rules.type.case === "string" ? stringCheck(rules.type.value, matches) : () => false;
}

function stringCheck(
  { minLen, maxLen, pattern }: StringRules,
  matches: (pattern: string, text: string) => boolean,
): IsSure {
  const min = Number(minLen);
  const max = Number(maxLen) || Number.POSITIVE_INFINITY;
  return (text: string) => {
    // A text has at most as many characters as UTF-16 units, and at least half as many.
    if (text.length > max || Math.ceil(text.length / 2) < min) return false;
    return pattern === "" || matches(pattern, text);
  };
}

/** Whether the messages of a type can break no rule, because none of it or in it has any. */
function isFree(desc: DescMessage): boolean {
  return desc.typeName.startsWith("google.protobuf.");
}
