import { create, fromJson, isMessage, type JsonObject, type Message } from "@bufbuild/protobuf";
import {
  type FieldRules,
  FieldRulesSchema,
  StringRulesSchema,
} from "@bufbuild/protovalidate/gen/buf/validate/validate_pb.js";

/** Rules of protovalidate in protobuf JSON, or as a message if JSON cannot express them. */
export type Rules = JsonObject | FieldRules;

/** Title, declaration of the field `f`, its rules. */
export type RuleCase = readonly [name: string, field: string, rules?: Rules];

/** A rule that rejects every value. */
export const CEL = [{ id: "no", message: "no", expression: "false" }];

/** The rule that a string has at least two characters. */
export const MIN_LEN = { string: { minLen: 2 } };

/** Fields whose empty value, or other simple values, need no protovalidate. */
export const SOMETIMES_PLAIN: readonly RuleCase[] = [
  ["no rule", "string f = 1"],
  ["a text's lengths", "string f = 1", { string: { minLen: 1, maxLen: 2 } }],
  ["a string of length zero", "string f = 1", { string: { maxLen: 0 } }],
  ["a pattern", "string f = 1", { string: { pattern: "^[a-c]*$" } }],
  ["an optional string", "optional string f = 1", MIN_LEN],
  ["a number without rules", "int32 f = 1"],
  ["an enum without rules", "Kind f = 1"],
  ["a list of strings without rules", "repeated string f = 1"],
  ["a list of messages with rules", "repeated Inner f = 1"],
  ["a list of messages without rules", "repeated Free f = 1"],
  ["a map of messages with rules", "map<string, Inner> f = 1"],
  ["a map of messages with rules and rules of its own", "map<string, Inner> f = 1", { map: { maxPairs: 5 } }],
  ["a map of strings", "map<string, string> f = 1", { map: { maxPairs: 2, keys: MIN_LEN, values: MIN_LEN } }],
  ["an empty map", "map<string, string> f = 1", { map: { maxPairs: 0 } }],
  ["a map of numbers", "map<int32, int32> f = 1", { map: { keys: { int32: { gt: 3 } } } }],
  ["the keys of a map, by CEL", "map<string, string> f = 1", { map: { keys: { cel: CEL } } }],
  ["the values of a map, which are required", "map<string, string> f = 1", { map: { values: { required: true } } }],
  ["a message with rules", "Inner f = 1"],
  ["a message with rules within", "Outer f = 1"],
  ["a message whose oneof has a rule", "Choice f = 1"],
  ["a message with a rule of CEL", "Whole f = 1"],
  ["a message without rules", "Free f = 1"],
  ["a duration", "google.protobuf.Duration f = 1", { duration: { lt: "2s" } }],
  ["a field of a oneof", "oneof o { string f = 1; int32 g = 2; }", MIN_LEN],
];

/** Fields whose every value needs protovalidate. */
export const NEVER_PLAIN: readonly RuleCase[] = [
  ["a string of given values", "string f = 1", { string: { in: ["abc"] } }],
  ["a constant text", "string f = 1", { string: { const: "abc" } }],
  ["a length in bytes", "string f = 1", { string: { maxBytes: 2 } }],
  ["an exact length", "string f = 1", { string: { len: 2 } }],
  ["a well-known format", "string f = 1", { string: { email: true } }],
  ["a CEL rule", "string f = 1", { cel: CEL }],
  ["a CEL rule and other rules", "string f = 1", { cel: CEL, ...MIN_LEN }],
  ["a CEL expression", "string f = 1", { celExpression: ["false"] }],
  ["a required string", "optional string f = 1", { required: true }],
  ["an ignored string", "string f = 1", { ignore: "IGNORE_IF_ZERO_VALUE", ...MIN_LEN }],
  ["a rule of a later version", "string f = 1", later(create(FieldRulesSchema))],
  [
    "a predefined rule",
    "string f = 1",
    create(FieldRulesSchema, { type: { case: "string", value: later(create(StringRulesSchema)) } }),
  ],
  ["a number", "int32 f = 1", { int32: { gt: 3 } }],
  ["a truth", "bool f = 1", { bool: { const: true } }],
  ["bytes", "bytes f = 1", { bytes: { minLen: 2 } }],
  ["an enum", "Kind f = 1", { enum: { definedOnly: true } }],
  ["the length of a list", "repeated string f = 1", { repeated: { minItems: 2 } }],
  ["a list with unique items", "repeated string f = 1", { repeated: { unique: true } }],
  ["the strings of a list", "repeated string f = 1", { repeated: { items: MIN_LEN } }],
  ["a map with a minimum size", "map<string, string> f = 1", { map: { minPairs: 2 } }],
  ["a required message", "Free f = 1", { required: true }],
  ["an ignored message", "Inner f = 1", { ignore: "IGNORE_ALWAYS" }],
  ["a required duration", "google.protobuf.Duration f = 1", { required: true, duration: {} }],
  ["a time", "google.protobuf.Timestamp f = 1", { timestamp: { ltNow: true } }],
  ["a wrapped text", "google.protobuf.StringValue f = 1", MIN_LEN],
  ["any message", "google.protobuf.Any f = 1", { any: { in: ["a"] } }],
  ["a required field of a oneof", "oneof o { string f = 1; int32 g = 2; }", { required: true }],
  ["rules of the wrong type", "int32 f = 1", MIN_LEN],
];

/** Builds a message of rules. */
export function rulesOf(rules: Rules): FieldRules {
  return isMessage(rules, FieldRulesSchema) ? rules : fromJson(FieldRulesSchema, rules);
}

/** Adds a rule that this version of protovalidate does not know. */
export function later<M extends Message>(rules: M): M {
  rules.$unknown = [{ no: 1161, wireType: 0, data: new Uint8Array([1]) }];
  return rules;
}
