import { type DescMessage, fromJson, fromJsonString, type JsonValue } from "@bufbuild/protobuf";
import { StructSchema } from "@bufbuild/protobuf/wkt";
import type { ConnectError } from "@connectrpc/connect";
import { describe, expect, it } from "vitest";
import {
  CreateApiTokenRequestSchema,
  ImportUserGroupsRequestSchema,
  ListEnvironmentsRequestSchema,
} from "../../gen/usergroup/admin/v1/admin_service_pb.ts";
import {
  GetUserGroupRequestSchema,
  RotateUserGroupTokenRequestSchema,
  UpdateUserGroupRequestSchema,
} from "../../gen/usergroup/v1/user_group_service_pb.ts";
import { CreateViewerSessionRequestSchema } from "../../gen/usergroup/v1/viewer_service_pb.ts";
import { refusedJson } from "./refusal-errors.ts";

function refusalOf(desc: DescMessage, json: string | JsonValue): ConnectError {
  try {
    if (typeof json === "string") fromJsonString(desc, json);
    else fromJson(desc, json);
  } catch (cause) {
    return refusedJson(cause, desc);
  }
  throw new Error("protobuf-es accepts the JSON");
}

describe("the error message for invalid JSON", () => {
  const nested = (levels: number) => `${'{"a":'.repeat(levels)}1${"}".repeat(levels)}`;

  it.each([
    ["incomplete JSON", "{", /^the body is not valid JSON in UTF-8$/],
    ["duplicate keys", '{"userGroupId":"a","userGroupId":"a"}', /duplicate key/],
    ["duplicate keys in properties", '{"properties":{"a":1,"a":1}}', /duplicate key/],
    ["more levels than protobuf-es accepts", `{"properties":${nested(200)}}`, /nested too deeply/],
    ["more levels than fit on the call stack", `{"properties":${nested(100_000)}}`, /nested too deeply/],
  ])("states the cause: %s", (_title, text, expected) => {
    expect(refusalOf(GetUserGroupRequestSchema, text).rawMessage).toMatch(expected);
  });

  it("states the cause: a Struct with more levels than protobuf-es accepts", () => {
    expect(refusalOf(StructSchema, nested(200)).rawMessage).toMatch(/nested too deeply/);
  });

  it.each([
    [GetUserGroupRequestSchema, "properties", []],
    [GetUserGroupRequestSchema, "properties", "text"],
    [GetUserGroupRequestSchema, "mapping", { a: 1 }],
    [GetUserGroupRequestSchema, "user_group_id", 5],
    [UpdateUserGroupRequestSchema, "update_mask", "some_name"],
    [RotateUserGroupTokenRequestSchema, "previous_token_ttl", 300],
    [RotateUserGroupTokenRequestSchema, "previous_token_ttl", "5 minutes"],
  ] as const)("names the invalid field: %s.%s with the value %j", (desc, name, value) => {
    const { rawMessage } = refusalOf(desc, { [name]: value as JsonValue });
    expect(rawMessage).toMatch(new RegExp(`^${name}: (?!is not of the right type)`));
  });

  it.each([
    [ListEnvironmentsRequestSchema, "page_size", "few", "must be a whole number, and must occur only once"],
    [
      CreateViewerSessionRequestSchema,
      "property_keys",
      "name",
      "must be a JSON array with only well-formed Unicode, and must occur only once",
    ],
    [
      ListEnvironmentsRequestSchema,
      "page_token",
      5,
      "must be a string in well-formed Unicode, and must occur only once",
    ],
    [ImportUserGroupsRequestSchema, "validate_only", "yes", "must be true or false, and must occur only once"],
    [
      CreateApiTokenRequestSchema,
      "role",
      "OWNER",
      "must be one of ROLE_UNSPECIFIED, ROLE_RESOLVE, ROLE_READ, ROLE_MANAGE, ROLE_ADMIN",
    ],
  ] as const)("names the field and its valid values: %s.%s with the value %j", (desc, name, value, expected) => {
    expect(refusalOf(desc, { [name]: value as JsonValue }).rawMessage).toBe(`${name}: ${expected}`);
  });

  it("names the field and its valid values: an environment tag of the wrong type", () => {
    const { rawMessage } = refusalOf(CreateApiTokenRequestSchema, { environment: { tag: true } });
    expect(rawMessage).toMatch(/^tag: must be one of API_ENVIRONMENT_TAG_UNSPECIFIED, /);
  });
});
