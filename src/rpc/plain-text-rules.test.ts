import { create, type DescMessage, type Message } from "@bufbuild/protobuf";
import type { UnaryRequest } from "@connectrpc/connect";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  GetUserGroupRequestSchema,
  RotateUserGroupTokenRequestSchema,
  UpdateUserGroupRequestSchema,
} from "../../gen/usergroup/v1/user_group_service_pb.ts";
import { ResolveViewerRequestSchema } from "../../gen/usergroup/v1/viewer_service_pb.ts";
import { allRulesInterceptor } from "./all-rules.ts";
import { compilePlainTextCheck } from "./plain-text-rules.ts";

const allRules = allRulesInterceptor()(async () => ({}) as never);

/** Texts around every limit, of one and of two UTF-16 units a character. */
const text = fc.oneof(
  { weight: 6, arbitrary: fc.constantFrom("abc", "a-1") },
  fc.constantFrom("", "a", "\0", "a\u0085b", "\n", "👪"),
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

describe.each(REQUESTS)("the check of plain $typeName", (desc, arbitrary) => {
  const isPlain = compilePlainTextCheck(desc);

  it("accepts nothing that the check of all rules refuses", () => {
    let plain = 0;
    fc.assert(
      fc.property(arbitrary, (init) => {
        const message = create(desc, init as never) as Message;
        if (!isPlain(message)) return;
        plain++;
        // Throws the error of a request that breaks a rule.
        void allRules({ stream: false, method: { input: desc }, message } as unknown as UnaryRequest);
      }),
      { numRuns: 1500, seed: 11 },
    );
    expect(plain).toBeGreaterThan(50);
  });
});

it("recognizes what callers mostly send", () => {
  const request = { userGroupId: "acme", name: "Acme" };
  const isPlain = compilePlainTextCheck(GetUserGroupRequestSchema);
  expect(isPlain(create(GetUserGroupRequestSchema, request))).toBe(true);
});
