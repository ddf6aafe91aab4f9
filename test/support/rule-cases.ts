import { create, type Message, type MessageInitShape } from "@bufbuild/protobuf";
import { FieldRulesSchema, Ignore, StringRulesSchema } from "@bufbuild/protovalidate/gen/buf/validate/validate_pb.js";

/** Rules of protovalidate. */
export type Rules = MessageInitShape<typeof FieldRulesSchema>;

/** A field, its rules, and whether some messages with it, such as the empty one, need no protovalidate. */
export interface RuleCase {
  readonly name: string;
  /** Of the field `f`. */
  readonly field: string;
  readonly rules?: Rules;
  readonly sure: "never" | "sometimes";
}

/** A rule that no value keeps. */
export const cel = [{ id: "no", message: "no", expression: "false" }];
/** The rule that a text has two characters at least. */
export const minLen = { case: "string", value: { minLen: 2n } } as const;

/** Rules of every kind on fields of every kind. */
export const RULE_CASES: readonly RuleCase[] = [
  { name: "no rule", field: "string f = 1", sure: "sometimes" },
  {
    name: "a text's lengths",
    field: "string f = 1",
    rules: { type: { case: "string", value: { minLen: 1n, maxLen: 2n } } },
    sure: "sometimes",
  },
  {
    name: "a length of nothing",
    field: "string f = 1",
    rules: { type: { case: "string", value: { maxLen: 0n } } },
    sure: "sometimes",
  },
  {
    name: "a pattern",
    field: "string f = 1",
    rules: { type: { case: "string", value: { pattern: "^[a-c]*$" } } },
    sure: "sometimes",
  },
  {
    name: "a text among others",
    field: "string f = 1",
    rules: { type: { case: "string", value: { in: ["abc"] } } },
    sure: "never",
  },
  {
    name: "a constant text",
    field: "string f = 1",
    rules: { type: { case: "string", value: { const: "abc" } } },
    sure: "never",
  },
  {
    name: "a length in bytes",
    field: "string f = 1",
    rules: { type: { case: "string", value: { maxBytes: 2n } } },
    sure: "never",
  },
  {
    name: "an exact length",
    field: "string f = 1",
    rules: { type: { case: "string", value: { len: 2n } } },
    sure: "never",
  },
  {
    name: "a well-known form",
    field: "string f = 1",
    rules: { type: { case: "string", value: { wellKnown: { case: "email", value: true } } } },
    sure: "never",
  },
  { name: "a rule of CEL", field: "string f = 1", rules: { cel }, sure: "never" },
  { name: "a rule of CEL beside others", field: "string f = 1", rules: { cel, type: minLen }, sure: "never" },
  { name: "an expression of CEL", field: "string f = 1", rules: { celExpression: ["false"] }, sure: "never" },
  { name: "a text that must be there", field: "optional string f = 1", rules: { required: true }, sure: "never" },
  {
    name: "a text that is ignored",
    field: "string f = 1",
    rules: { ignore: Ignore.IF_ZERO_VALUE, type: minLen },
    sure: "never",
  },
  { name: "an optional text", field: "optional string f = 1", rules: { type: minLen }, sure: "sometimes" },
  {
    name: "a rule of a later version",
    field: "string f = 1",
    rules: later(create(FieldRulesSchema)),
    sure: "never",
  },
  {
    name: "a predefined rule",
    field: "string f = 1",
    rules: {
      type: { case: "string", value: later(create(StringRulesSchema)) },
    },
    sure: "never",
  },
  {
    name: "a number",
    field: "int32 f = 1",
    rules: { type: { case: "int32", value: { greaterThan: { case: "gt", value: 3 } } } },
    sure: "never",
  },
  { name: "a number without rules", field: "int32 f = 1", sure: "sometimes" },
  { name: "a truth", field: "bool f = 1", rules: { type: { case: "bool", value: { const: true } } }, sure: "never" },
  { name: "bytes", field: "bytes f = 1", rules: { type: { case: "bytes", value: { minLen: 2n } } }, sure: "never" },
  {
    name: "an enum",
    field: "Kind f = 1",
    rules: { type: { case: "enum", value: { definedOnly: true } } },
    sure: "never",
  },
  { name: "an enum without rules", field: "Kind f = 1", sure: "sometimes" },
  { name: "a list of texts without rules", field: "repeated string f = 1", sure: "sometimes" },
  {
    name: "how long a list is",
    field: "repeated string f = 1",
    rules: { type: { case: "repeated", value: { minItems: 2n } } },
    sure: "never",
  },
  {
    name: "a list without doubles",
    field: "repeated string f = 1",
    rules: { type: { case: "repeated", value: { unique: true } } },
    sure: "never",
  },
  {
    name: "the texts of a list",
    field: "repeated string f = 1",
    rules: { type: { case: "repeated", value: { items: { type: minLen } } } },
    sure: "never",
  },
  { name: "a list of messages with rules", field: "repeated Inner f = 1", sure: "sometimes" },
  { name: "a list of messages without", field: "repeated Free f = 1", sure: "sometimes" },
  { name: "a map of messages with rules", field: "map<string, Inner> f = 1", sure: "sometimes" },
  {
    name: "a map of messages with rules and rules of its own",
    field: "map<string, Inner> f = 1",
    rules: { type: { case: "map", value: { maxPairs: 5n } } },
    sure: "sometimes",
  },
  {
    name: "a map of texts",
    field: "map<string, string> f = 1",
    rules: { type: { case: "map", value: { maxPairs: 2n, keys: { type: minLen }, values: { type: minLen } } } },
    sure: "sometimes",
  },
  {
    name: "an empty map",
    field: "map<string, string> f = 1",
    rules: { type: { case: "map", value: { maxPairs: 0n } } },
    sure: "sometimes",
  },
  {
    name: "a map of some pairs",
    field: "map<string, string> f = 1",
    rules: { type: { case: "map", value: { minPairs: 2n } } },
    sure: "never",
  },
  {
    name: "a map of numbers",
    field: "map<int32, int32> f = 1",
    rules: {
      type: {
        case: "map",
        value: { keys: { type: { case: "int32", value: { greaterThan: { case: "gt", value: 3 } } } } },
      },
    },
    sure: "sometimes",
  },
  {
    name: "the keys of a map, by CEL",
    field: "map<string, string> f = 1",
    rules: { type: { case: "map", value: { keys: { cel } } } },
    sure: "sometimes",
  },
  {
    name: "the values of a map that must be there",
    field: "map<string, string> f = 1",
    rules: { type: { case: "map", value: { values: { required: true } } } },
    sure: "sometimes",
  },
  { name: "a message with rules", field: "Inner f = 1", sure: "sometimes" },
  { name: "a message with rules within", field: "Outer f = 1", sure: "sometimes" },
  { name: "a message whose oneof has a rule", field: "Choice f = 1", sure: "sometimes" },
  { name: "a message with a rule of CEL", field: "Whole f = 1", sure: "sometimes" },
  { name: "a message without rules", field: "Free f = 1", sure: "sometimes" },
  { name: "a message that must be there", field: "Free f = 1", rules: { required: true }, sure: "never" },
  { name: "a message that is ignored", field: "Inner f = 1", rules: { ignore: Ignore.ALWAYS }, sure: "never" },
  {
    name: "a duration",
    field: "google.protobuf.Duration f = 1",
    rules: { type: { case: "duration", value: { lessThan: { case: "lt", value: { seconds: 2n } } } } },
    sure: "sometimes",
  },
  {
    name: "a duration that must be there",
    field: "google.protobuf.Duration f = 1",
    rules: { required: true, type: { case: "duration", value: {} } },
    sure: "never",
  },
  {
    name: "a time",
    field: "google.protobuf.Timestamp f = 1",
    rules: { type: { case: "timestamp", value: { lessThan: { case: "ltNow", value: true } } } },
    sure: "never",
  },
  { name: "a wrapped text", field: "google.protobuf.StringValue f = 1", rules: { type: minLen }, sure: "never" },
  {
    name: "any message",
    field: "google.protobuf.Any f = 1",
    rules: { type: { case: "any", value: { in: ["a"] } } },
    sure: "never",
  },
  {
    name: "a field of a oneof",
    field: "oneof o { string f = 1; int32 g = 2; }",
    rules: { type: minLen },
    sure: "sometimes",
  },
  {
    name: "a field of a oneof that must be there",
    field: "oneof o { string f = 1; int32 g = 2; }",
    rules: { required: true },
    sure: "never",
  },
  { name: "rules of another type", field: "int32 f = 1", rules: { type: minLen }, sure: "never" },
];

/** Adds a rule that this version of protovalidate does not know. */
export function later<M extends Message>(rules: M): M {
  rules.$unknown = [{ no: 1161, wireType: 0, data: new Uint8Array([1]) }];
  return rules;
}
