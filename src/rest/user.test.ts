import { equals, fromJson } from "@bufbuild/protobuf";
import fc from "fast-check";
import { expect, it } from "vitest";
import { type GetUserGroupRequest, GetUserGroupRequestSchema } from "../../gen/usergroup/v1/user_group_service_pb.ts";
import type { Json, JsonObject } from "../domain/user-group.ts";
import { VERBS } from "./user.ts";

const value: fc.Arbitrary<Json> = fc.oneof(
  { weight: 4, arbitrary: fc.string({ unit: "binary" }) },
  fc.constantFrom<Json>("", "\ud800", "a\udc00b", 1, true, {}, { a: "b" }, { a: 1 }, [], ["a"]),
);

const object = fc.constantFrom<Json>({}, { a: "b" }, { a: 1 }, "text");
const body = fc.oneof(
  fc.record({ user_group_id: value, name: value }, { requiredKeys: [] }),
  fc.record({ user_group_id: value, name: value, mapping: object, properties: object }, { requiredKeys: [] }),
);

function outcomeOf(make: () => unknown): GetUserGroupRequest | "refused" {
  try {
    return make() as GetUserGroupRequest;
  } catch {
    return "refused";
  }
}

it("GET /api/user parses and rejects the same fields as the decoder of protobuf-es", () => {
  let texts = 0;
  fc.assert(
    fc.property(body, (fields: JsonObject) => {
      const request = { body: fields, query: undefined, ifMatch: undefined, idempotencyKey: undefined };
      const read = outcomeOf(() => VERBS.get("GET")?.toRequest(request));
      const expected = outcomeOf(() => fromJson(GetUserGroupRequestSchema, fields));
      if (read === "refused" || expected === "refused") {
        expect(read).toBe(expected);
        return;
      }
      texts++;
      expect(equals(GetUserGroupRequestSchema, read, expected)).toBe(true);
      expect(read.name).toBe(expected.name);
    }),
    { numRuns: 2000, seed: 11 },
  );
  expect(texts).toBeGreaterThan(100);
});
