import { create, type DescMessage, type JsonObject, type Message, toBinary, toJsonString } from "@bufbuild/protobuf";
import { TimestampSchema } from "@bufbuild/protobuf/wkt";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { HealthListResponseSchema } from "../../../gen/grpc/health/v1/health_pb.ts";
import { UserGroupSchema } from "../../../gen/usergroup/v1/user_group_pb.ts";
import {
  GetUserGroupResponseSchema,
  RotateUserGroupTokenResponseSchema,
  UpdateUserGroupResponseSchema,
} from "../../../gen/usergroup/v1/user_group_service_pb.ts";
import { ResolveViewerResponseSchema } from "../../../gen/usergroup/v1/viewer_service_pb.ts";
import "../../hardening.ts";
import { compileBinaryEncoder } from "./binary-encoder.ts";
import { compileJsonEncoder } from "./json-encoder.ts";

const text = fc.oneof(fc.string({ unit: "binary" }), fc.string({ maxLength: 2000 }), fc.constant("__proto__"));
const json = fc.dictionary(text, fc.jsonValue({ maxDepth: 5, stringUnit: "binary" }), {
  maxKeys: 6,
}) as fc.Arbitrary<JsonObject>;
const timestamp = fc
  .record({
    seconds: fc.bigInt(-62_135_596_800n, 253_402_300_799n),
    nanos: fc.constantFrom(0, 1, 1_000_000, 999_000_000, 123_456_789),
  })
  .map((init) => create(TimestampSchema, init));
const optional = <T>(arbitrary: fc.Arbitrary<T>) => fc.option(arbitrary, { nil: undefined });

const userGroup = fc
  .record({
    teamId: fc.bigInt(-(2n ** 63n), 2n ** 63n - 1n),
    token: text,
    name: text,
    providedId: text,
    mapping: fc.dictionary(text, text, { maxKeys: 8 }),
    properties: optional(json),
    apiEnvironmentTag: fc.integer({ min: -2, max: 4 }),
    etag: text,
    createTime: optional(timestamp),
    updateTime: optional(timestamp),
  })
  .map((init) => create(UserGroupSchema, init as never));
const getResponse = fc
  .record({ userGroup: optional(userGroup), newUserGroup: fc.boolean() })
  .map((init) => create(GetUserGroupResponseSchema, init));
const viewer = fc
  .record({
    teamId: fc.bigInt(0n, 2n ** 53n),
    mapping: fc.dictionary(text, text),
    properties: optional(json),
    tokenExpireTime: optional(timestamp),
  })
  .map((init) => create(ResolveViewerResponseSchema, init));

/** What an encoder makes of a message, or that it throws. */
function outcome<T>(encode: () => T): T | "throws" {
  try {
    return encode();
  } catch {
    return "throws";
  }
}

function sameAs<D extends DescMessage>(desc: D, arbitrary: fc.Arbitrary<Message>): void {
  const binary = compileBinaryEncoder(desc);
  const toJson = compileJsonEncoder(desc);
  if (!binary || !toJson) throw new Error(`${desc.typeName} has no fast encoder`);
  fc.assert(
    fc.property(arbitrary, (message) => {
      const fastBytes = outcome(() => binary(message));
      if (fastBytes !== "throws") expect(Buffer.from(fastBytes)).toEqual(Buffer.from(toBinary(desc, message as never)));
      const fastJson = outcome(() => toJson(message));
      if (fastJson !== "throws") expect(fastJson).toBe(toJsonString(desc, message as never));
    }),
    { numRuns: 1500, seed: 7 },
  );
}

describe("the fast encoders write what protobuf-es writes", () => {
  it("of a response with a user group", () => sameAs(GetUserGroupResponseSchema, getResponse));
  it("of a viewer", () => sameAs(ResolveViewerResponseSchema, viewer));

  it.each([
    GetUserGroupResponseSchema,
    UpdateUserGroupResponseSchema,
    RotateUserGroupTokenResponseSchema,
    ResolveViewerResponseSchema,
  ])("and know every type that the service answers with: $typeName", (desc) => {
    expect(compileBinaryEncoder(desc)?.(create(desc))).toEqual(Buffer.alloc(0));
    expect(compileJsonEncoder(desc)?.(create(desc))).toBe("{}");
  });

  it("and leave alone what they do not know", () => {
    expect(compileJsonEncoder(HealthListResponseSchema)).toBeUndefined();
    const unknown = { ...create(UserGroupSchema), $unknown: [{ no: 99, wireType: 0, data: new Uint8Array([1]) }] };
    expect(() => compileBinaryEncoder(UserGroupSchema)?.(unknown as never)).toThrow();
    expect(() => compileBinaryEncoder(UserGroupSchema)?.(create(UserGroupSchema, { name: 5 as never }))).toThrow();
    expect(() =>
      compileJsonEncoder(UserGroupSchema)?.(create(UserGroupSchema, { properties: { a: Number.NaN } })),
    ).toThrow();
  });
});
