import {
  create,
  createFileRegistry,
  type DescField,
  type DescMessage,
  type Message,
  type MessageInitShape,
  setExtension,
} from "@bufbuild/protobuf";
import {
  type DescriptorProto,
  type FieldDescriptorProto,
  FieldOptionsSchema,
  type FileDescriptorProto,
  FileDescriptorSetSchema,
  MessageOptionsSchema,
  type OneofDescriptorProto,
  OneofOptionsSchema,
} from "@bufbuild/protobuf/wkt";
import { createValidator } from "@bufbuild/protovalidate";
import {
  field as fieldRules,
  MessageRulesSchema,
  message as messageRules,
  OneofRulesSchema,
  oneof as oneofRules,
} from "@bufbuild/protovalidate/gen/buf/validate/validate_pb.js";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  GetUserGroupRequestSchema,
  RotateUserGroupTokenRequestSchema,
  UpdateUserGroupRequestSchema,
} from "../../gen/usergroup/v1/user_group_service_pb.ts";
import { ResolveViewerRequestSchema } from "../../gen/usergroup/v1/viewer_service_pb.ts";
import { compileProto } from "../../test/support/proto.ts";
import {
  CEL,
  later,
  MIN_LEN,
  NEVER_PLAIN,
  type Rules,
  rulesOf,
  SOMETIMES_PLAIN,
} from "../../test/support/rule-cases.ts";
import { isIntactToken } from "../domain/token.ts";
import { allRules as allRulesOf } from "./all-rules.ts";
import { compilePlainTextCheck, regexMatch } from "./plain-text-rules.ts";

const allRules = allRulesOf(isIntactToken);

/** Texts whose lengths are near each limit. A character has one or two UTF-16 units. */
const text = fc.oneof(
  { weight: 6, arbitrary: fc.constantFrom("abc", "a-1") },
  fc.constantFrom("", "a", "\0", "a\u0085b", "\n", "👪", " a", "a ", "a b", "a\u200bb", "\ufeffa"),
  fc
    .tuple(
      fc.constantFrom("a", "👪", "é"),
      fc.constantFrom(1, 63, 64, 127, 128, 129, 255, 256, 257, 512, 1023, 1024, 1025),
    )
    .map(([character, count]) => character.repeat(count)),
  fc.string({ unit: "binary" }),
);
const mapping = fc.oneof(
  { weight: 4, arbitrary: fc.constant({}) },
  fc.dictionary(text, text, { maxKeys: 3 }),
  fc
    .constantFrom(999, 1000, 1001)
    .map((count) => Object.fromEntries(Array.from({ length: count }, (_, i) => [`k${i}`, "v"]))),
);
const optional = <T>(arbitrary: fc.Arbitrary<T>) => fc.option(arbitrary, { nil: undefined, freq: 2 });
const duration = fc.record({
  seconds: fc.constantFrom(-1n, 0n, 1n, 2_592_000n, 2_592_001n),
  nanos: fc.constantFrom(0, 1, -1),
});
const target = fc.oneof(
  fc.constant({ case: undefined }),
  fc.record({ case: fc.constantFrom("currentToken", "userGroupId"), value: text }),
);

const REQUESTS: readonly (readonly [DescMessage, fc.Arbitrary<object>])[] = [
  [
    GetUserGroupRequestSchema,
    fc.record({ userGroupId: text, name: optional(text), mapping, properties: optional(fc.constant({ a: 1 })) }),
  ],
  [
    UpdateUserGroupRequestSchema,
    fc.record({
      userGroupId: text,
      name: text,
      mapping,
      etag: text,
      updateMask: optional(fc.constant({ paths: ["name"] })),
    }),
  ],
  [
    RotateUserGroupTokenRequestSchema,
    fc.record({ group: target, previousTokenTtl: optional(duration), requestId: text }),
  ],
  [ResolveViewerRequestSchema, fc.record({ token: text })],
];

describe.each(REQUESTS)("the plain-text check for $typeName", (desc, arbitrary) => {
  const isPlain = compilePlainTextCheck(desc, isIntactToken);

  it("accepts only messages that satisfy all rules", () => {
    let plain = 0;
    fc.assert(
      fc.property(arbitrary, (init) => {
        const message = create(desc, init as never) as Message;
        if (!isPlain(message)) return;
        plain++;
        allRules(desc, message);
      }),
      { numRuns: 1500, seed: 11 },
    );
    expect(plain).toBeGreaterThan(50);
  });
});

it("the plain-text check accepts a common request, so that the service skips protovalidate", () => {
  const request = { userGroupId: "acme", name: "Acme" };
  const isPlain = compilePlainTextCheck(GetUserGroupRequestSchema, isIntactToken);
  expect(isPlain(create(GetUserGroupRequestSchema, request))).toBe(true);
});

const RULE_CASES = [...SOMETIMES_PLAIN, ...NEVER_PLAIN];
const registry = compileProto(`
  syntax = "proto3";
  package sure.v1;
  import "google/protobuf/any.proto";
  import "google/protobuf/duration.proto";
  import "google/protobuf/timestamp.proto";
  import "google/protobuf/wrappers.proto";
  enum Kind { KIND_UNSPECIFIED = 0; KIND_ONE = 1; }
  message Inner { string f = 1; }
  message Outer { repeated Inner inner = 1; }
  message Choice { oneof o { string a = 1; } }
  message Whole { string a = 1; }
  message Free { string a = 1; Free free = 2; }
  message WithOneof { oneof o { string a = 1; string b = 2; } }
  message WithUnknownOneof { oneof o { string a = 1; } }
  message WithCel { string a = 1; }
  message WithMessageOneof { string a = 1; string b = 2; }
  ${RULE_CASES.map(([, field], i) => `message Case${i} { ${field}${field.endsWith("}") ? "" : ";"} }`).join("\n")}
`);

function annotated(): ReturnType<typeof createFileRegistry> {
  const files = [...registry.files].map(({ proto }) => proto);
  const file = files.find(({ package: name }) => name === "sure.v1") as FileDescriptorProto;
  const messageOf = (name: string) => file.messageType.find((message) => message.name === name) as DescriptorProto;
  const onField = (message: string, name: string, rules: Rules) => {
    const field = messageOf(message).field.find((each) => each.name === name) as FieldDescriptorProto;
    field.options ??= create(FieldOptionsSchema);
    setExtension(field.options, fieldRules, rulesOf(rules));
  };
  const onMessage = (name: string, rules: MessageInitShape<typeof MessageRulesSchema>) => {
    const options = create(MessageOptionsSchema);
    messageOf(name).options = options;
    setExtension(options, messageRules, create(MessageRulesSchema, rules));
  };
  const onOneof = (name: string, rules: MessageInitShape<typeof OneofRulesSchema>) => {
    const [oneof] = messageOf(name).oneofDecl as [OneofDescriptorProto];
    oneof.options = create(OneofOptionsSchema);
    setExtension(oneof.options, oneofRules, create(OneofRulesSchema, rules));
  };
  for (const [i, [, , rules]] of RULE_CASES.entries()) if (rules) onField(`Case${i}`, "f", rules);
  onField("Inner", "f", MIN_LEN);
  onMessage("Whole", { cel: CEL });
  onMessage("WithCel", { cel: CEL });
  onMessage("WithMessageOneof", { oneof: [{ fields: ["a", "b"], required: true }] });
  onOneof("Choice", { required: true });
  onOneof("WithOneof", { required: true });
  onOneof("WithUnknownOneof", later(create(OneofRulesSchema)));
  return createFileRegistry(create(FileDescriptorSetSchema, { file: files }));
}

const rules = annotated();
const messageType = (name: string) => rules.getMessage(`sure.v1.${name}`) as DescMessage;
const validator = createValidator({ regexMatch });

function anyValue(field: DescField, depth: number): fc.Arbitrary<unknown> {
  const text = fc.constantFrom("", "a", "ab", "abc", "👪", "x@example.com", "a".repeat(5));
  const single = (): fc.Arbitrary<unknown> => {
    if (field.message)
      return field.message.typeName.endsWith("StringValue") ? text : anyMessage(field.message, depth - 1);
    if (field.enum) return fc.nat(2);
    if (field.scalar === 9) return text;
    if (field.scalar === 8) return fc.boolean();
    if (field.scalar === 12) return fc.uint8Array({ maxLength: 3 });
    if (field.scalar === 3) return fc.bigInt(0n, 4n);
    return fc.nat(5);
  };
  if (field.fieldKind === "list") return fc.array(single(), { maxLength: 3 });
  if (field.fieldKind === "map")
    return fc.dictionary(field.mapKey === 9 ? text : fc.nat(5).map(String), single(), { maxKeys: 3 });
  return fc.option(single(), { nil: undefined });
}

function anyMessage(desc: DescMessage, depth: number): fc.Arbitrary<object> {
  if (depth < 0) return fc.constant({});
  const plain = desc.fields.filter(({ oneof }) => oneof === undefined);
  const fields = fc.record(Object.fromEntries(plain.map((field) => [field.localName, anyValue(field, depth)])));
  return desc.oneofs.reduce<fc.Arbitrary<object>>((all, oneof) => {
    const chosen = fc
      .constantFrom(undefined, ...oneof.fields)
      .chain(
        (field): fc.Arbitrary<unknown> =>
          field === undefined
            ? fc.constant({ case: undefined })
            : anyValue(field, depth).map((value) =>
                value === undefined ? { case: undefined } : { case: field.localName, value },
              ),
      );
    return fc.tuple(all, chosen).map(([others, value]) => ({ ...others, [oneof.localName]: value }));
  }, fields);
}

/**
 * Requires that protovalidate accepts each random message that the check accepts.
 *
 * @returns the number of messages that the check accepts
 */
function timesPlain(desc: DescMessage): number {
  const isPlain = compilePlainTextCheck(desc, isIntactToken);
  let plain = 0;
  fc.assert(
    fc.property(anyMessage(desc, 3), (init) => {
      const message = create(desc, init as never) as Message;
      if (!isPlain(message)) return;
      plain++;
      expect(validator.validate(desc, message as never).kind).toBe("valid");
    }),
    { numRuns: 200, seed: 11 },
  );
  return plain;
}

describe("the plain-text check", () => {
  it.each(RULE_CASES.map((rules, i) => [rules[0], rules, i] as const))(
    "accepts only valid messages, or no message if the check does not support the rule: %s",
    (_name, rules, i) => {
      const times = timesPlain(messageType(`Case${i}`));
      if (NEVER_PLAIN.includes(rules)) expect(times).toBe(0);
      else expect(times).toBeGreaterThan(0);
    },
  );

  it.each([
    ["a CEL rule of the whole message", "WithCel"],
    ["a oneof rule of the whole message", "WithMessageOneof"],
    ["a oneof with a rule of a later version of protovalidate", "WithUnknownOneof"],
  ])("accepts no message with %s", (_name, message) => {
    expect(timesPlain(messageType(message))).toBe(0);
  });

  it("does not accept a message whose required oneof is unset", () => {
    const isPlain = compilePlainTextCheck(messageType("WithOneof"), isIntactToken);
    expect(isPlain(create(messageType("WithOneof")))).toBe(false);
    expect(timesPlain(messageType("WithOneof"))).toBeGreaterThan(0);
  });
});
