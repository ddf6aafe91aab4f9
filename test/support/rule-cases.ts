import { create, fromJson, isMessage, type JsonObject, type Message } from "@bufbuild/protobuf";
import {
  type FieldRules,
  FieldRulesSchema,
  StringRulesSchema,
} from "@bufbuild/protovalidate/gen/buf/validate/validate_pb.js";

/** Rules of protovalidate, in protobuf JSON. If JSON cannot express the rules, they are a protobuf message. */
export type Rules = JsonObject | FieldRules;

/** Name of the case, declaration of the field `f`, and rules of the field. */
export type RuleCase = readonly [name: string, field: string, rules?: Rules];

export const CEL = [{ id: "no", message: "no", expression: "false" }];

export const MIN_LEN = { string: { minLen: 2 } };

/**
 * Fields that can be checked without protovalidate. If the value of such a field is empty or simple, protovalidate is
 * not called.
 */
export const SOMETIMES_PLAIN: readonly RuleCase[] = [
  ["a field without rules", "string f = 1"],
  ["a string with length limits", "string f = 1", { string: { minLen: 1, maxLen: 2 } }],
  ["a string that must be empty", "string f = 1", { string: { maxLen: 0 } }],
  ["a string with a pattern", "string f = 1", { string: { pattern: "^[a-c]*$" } }],
  ["an optional string with a rule", "optional string f = 1", MIN_LEN],
  ["a number without rules", "int32 f = 1"],
  ["an enum without rules", "Kind f = 1"],
  ["a list of strings without rules", "repeated string f = 1"],
  ["a list of messages with rules", "repeated Inner f = 1"],
  ["a list of messages without rules", "repeated Free f = 1"],
  ["a map of messages with rules", "map<string, Inner> f = 1"],
  ["a map with rules, whose values are messages with rules", "map<string, Inner> f = 1", { map: { maxPairs: 5 } }],
  [
    "a map of strings with rules",
    "map<string, string> f = 1",
    { map: { maxPairs: 2, keys: MIN_LEN, values: MIN_LEN } },
  ],
  ["a map that must be empty", "map<string, string> f = 1", { map: { maxPairs: 0 } }],
  ["a map of numbers with rules", "map<int32, int32> f = 1", { map: { keys: { int32: { gt: 3 } } } }],
  ["a map with a CEL rule for its keys", "map<string, string> f = 1", { map: { keys: { cel: CEL } } }],
  ["a map with required values", "map<string, string> f = 1", { map: { values: { required: true } } }],
  ["a message with rules", "Inner f = 1"],
  ["a message that contains a message with rules", "Outer f = 1"],
  ["a message whose oneof has a rule", "Choice f = 1"],
  ["a message with a CEL rule", "Whole f = 1"],
  ["a message without rules", "Free f = 1"],
  ["a duration with a rule", "google.protobuf.Duration f = 1", { duration: { lt: "2s" } }],
  ["a field of a oneof with a rule", "oneof o { string f = 1; int32 g = 2; }", MIN_LEN],
];

/** Fields that are always checked with protovalidate. */
export const NEVER_PLAIN: readonly RuleCase[] = [
  ["a string from a list of allowed values", "string f = 1", { string: { in: ["abc"] } }],
  ["a string with a constant value", "string f = 1", { string: { const: "abc" } }],
  ["a string with a maximum length in bytes", "string f = 1", { string: { maxBytes: 2 } }],
  ["a string with an exact length", "string f = 1", { string: { len: 2 } }],
  ["a string in a well-known format", "string f = 1", { string: { email: true } }],
  ["a string with a CEL rule", "string f = 1", { cel: CEL }],
  ["a string with a CEL rule and other rules", "string f = 1", { cel: CEL, ...MIN_LEN }],
  ["a string with a CEL expression", "string f = 1", { celExpression: ["false"] }],
  ["a required string", "optional string f = 1", { required: true }],
  ["a string whose rules are ignored if it is empty", "string f = 1", { ignore: "IGNORE_IF_ZERO_VALUE", ...MIN_LEN }],
  ["a string with a rule of a later version of protovalidate", "string f = 1", later(create(FieldRulesSchema))],
  [
    "a string with a predefined rule",
    "string f = 1",
    create(FieldRulesSchema, { type: { case: "string", value: later(create(StringRulesSchema)) } }),
  ],
  ["a number with a rule", "int32 f = 1", { int32: { gt: 3 } }],
  ["a boolean with a rule", "bool f = 1", { bool: { const: true } }],
  ["bytes with a rule", "bytes f = 1", { bytes: { minLen: 2 } }],
  ["an enum with a rule", "Kind f = 1", { enum: { definedOnly: true } }],
  ["a list with a minimum length", "repeated string f = 1", { repeated: { minItems: 2 } }],
  ["a list with unique items", "repeated string f = 1", { repeated: { unique: true } }],
  ["a list with rules for its strings", "repeated string f = 1", { repeated: { items: MIN_LEN } }],
  ["a map with a minimum size", "map<string, string> f = 1", { map: { minPairs: 2 } }],
  ["a required message", "Free f = 1", { required: true }],
  ["a message whose rules are ignored", "Inner f = 1", { ignore: "IGNORE_ALWAYS" }],
  ["a required duration", "google.protobuf.Duration f = 1", { required: true, duration: {} }],
  ["a timestamp with a rule", "google.protobuf.Timestamp f = 1", { timestamp: { ltNow: true } }],
  ["a wrapped string with a rule", "google.protobuf.StringValue f = 1", MIN_LEN],
  ["a message of type Any with a rule", "google.protobuf.Any f = 1", { any: { in: ["a"] } }],
  ["a required field of a oneof", "oneof o { string f = 1; int32 g = 2; }", { required: true }],
  ["rules of the wrong type", "int32 f = 1", MIN_LEN],
];

export function rulesOf(rules: Rules): FieldRules {
  return isMessage(rules, FieldRulesSchema) ? rules : fromJson(FieldRulesSchema, rules);
}

/** Adds a rule that this version of protovalidate does not support. */
export function later<M extends Message>(rules: M): M {
  rules.$unknown = [{ no: 1161, wireType: 0, data: new Uint8Array([1]) }];
  return rules;
}
