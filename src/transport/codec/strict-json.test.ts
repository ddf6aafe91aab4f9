import { describe, expect, it } from "vitest";
import {
  GetUserGroupRequestSchema,
  RotateUserGroupTokenRequestSchema,
} from "../../../gen/usergroup/v1/user_group_service_pb.ts";
import { hasLenientJson, requireStrictJson } from "./strict-json.ts";

describe("strict JSON", () => {
  it.each(["1s", "0s", "-3.5s", "300.123456789s"])("takes the duration %s by either name", (ttl) => {
    requireStrictJson(RotateUserGroupTokenRequestSchema, { previousTokenTtl: ttl });
    requireStrictJson(RotateUserGroupTokenRequestSchema, { previous_token_ttl: ttl });
  });

  it.each(["300s of grace", "1s\n", "1ss", "1s1s", "1.0123456789s"])(
    "refuses the duration %j by either name",
    (ttl) => {
      for (const name of ["previousTokenTtl", "previous_token_ttl"]) {
        expect(() => requireStrictJson(RotateUserGroupTokenRequestSchema, { [name]: ttl })).toThrow(/Duration/);
      }
    },
  );

  it("leaves to the decoder what else is wrong, and types without durations", () => {
    for (const json of [null, 1, [], "1s x", { previousTokenTtl: 5 }, { previousTokenTtl: null }, { other: "1s x" }]) {
      requireStrictJson(RotateUserGroupTokenRequestSchema, json);
    }
    requireStrictJson(GetUserGroupRequestSchema, { properties: { previousTokenTtl: "1s x" } });
    expect(hasLenientJson(GetUserGroupRequestSchema)).toBe(false);
    expect(hasLenientJson(RotateUserGroupTokenRequestSchema)).toBe(true);
  });
});
