import { create, createRegistry, type DescFile } from "@bufbuild/protobuf";
import { FieldRulesSchema } from "@bufbuild/protovalidate/gen/buf/validate/validate_pb.js";
import { describe, expect, it } from "vitest";
import { file_usergroup_admin_v1_admin_service } from "../../gen/usergroup/admin/v1/admin_service_pb.ts";
import { file_usergroup_v1_user_group_service } from "../../gen/usergroup/v1/user_group_service_pb.ts";
import type { JsonSchema } from "./rules.ts";
import { FieldRulesReader, keywordsOf } from "./rules.ts";
import { Schemas } from "./schemas.ts";

const registry = createRegistry(
  ...[file_usergroup_v1_user_group_service, file_usergroup_admin_v1_admin_service].flatMap(withDependencies),
);

function withDependencies(file: DescFile): DescFile[] {
  return [file, ...file.dependencies.flatMap(withDependencies)];
}

function schemaOf(typeName: string) {
  const schemas = new Schemas(new FieldRulesReader(registry));
  const message = registry.getMessage(typeName);
  if (!message) throw new Error(`the message ${typeName} does not exist`);
  schemas.message(message);
  return { schema: schemas.all[typeName] as JsonSchema, all: schemas.all };
}

describe("the schema of a message", () => {
  it("requires a field without presence if a rule refuses its default value", () => {
    expect(schemaOf("usergroup.v1.GetUserGroupRequest").schema).toMatchObject({ required: ["userGroupId"] });
    // A pattern refuses the default of `name`. The rules of `role` refuse the enum value 0.
    expect(schemaOf("usergroup.admin.v1.EnvironmentName").schema).toMatchObject({ required: ["name"] });
    expect(schemaOf("usergroup.admin.v1.CreateApiTokenRequest").schema).toMatchObject({
      required: ["displayName", "role"],
    });
    expect(schemaOf("usergroup.admin.v1.ImportUserGroupsRequest").schema).toMatchObject({ required: ["userGroups"] });
  });

  it("does not require a field with presence, even if a rule refuses its default value", () => {
    const { schema } = schemaOf("usergroup.admin.v1.ImportedUserGroup");
    expect(schema).toMatchObject({ required: ["providedId"], properties: { token: { minLength: 8 } } });
  });

  it("requires exactly one field of a required oneof", () => {
    expect(schemaOf("usergroup.v1.RotateUserGroupTokenRequest").schema).toMatchObject({
      "x-exactly-one-of": ["currentToken", "userGroupId"],
    });
  });
});

it("the schema of a message requires exactly one field of the message rule `oneof`", () => {
  expect(schemaOf("usergroup.admin.v1.DeleteUserGroupRequest").schema).toMatchObject({
    "x-exactly-one-of": ["userGroupId", "currentToken"],
  });
});

describe("the schema of a field", () => {
  it("contains the rules of protovalidate and of this service as keywords", () => {
    const { schema } = schemaOf("usergroup.v1.GetUserGroupRequest");
    expect(schema["properties"]).toEqual({
      userGroupId: {
        type: "string",
        minLength: 1,
        maxLength: 256,
        "x-no-token": true,
        "x-visible": true,
      },
      name: { type: "string", maxLength: 256, "x-no-token": true },
      mapping: {
        type: "object",
        maxProperties: 1000,
        propertyNames: { minLength: 1, maxLength: 256 },
        additionalProperties: { type: "string", maxLength: 1024 },
      },
      properties: {
        type: "object",
        additionalProperties: {},
        "x-exact-numbers": true,
        "x-max-bytes": 65536,
        "x-max-depth": 32,
      },
      expireTime: { type: "string", format: "date-time", examples: ["2027-01-31T12:00:00Z"] },
    });
  });

  it("contains the limits of a duration in seconds", () => {
    const { schema } = schemaOf("usergroup.v1.RotateUserGroupTokenRequest");
    const { previousTokenTtl } = schema["properties"] as { readonly [name: string]: JsonSchema };
    expect(previousTokenTtl).toMatchObject({ type: "string", "x-min-seconds": 0, "x-max-seconds": 2_592_000 });
    const isDuration = new RegExp(String(previousTokenTtl?.["pattern"]));
    for (const text of ["0s", "-0.5s", "00060s", "2591999.999999999s"]) expect(text).toMatch(isDuration);
    for (const text of ["", "s", "5", "1.0000000001s", "300s "]) expect(text).not.toMatch(isDuration);
  });

  it("the schema of a field cannot be created if a rule has no keyword", () => {
    const field = registry.getMessage("usergroup.v1.GetUserGroupRequest")?.field["userGroupId"];
    if (!field) throw new Error("the field does not exist");
    const rules = create(FieldRulesSchema, { type: { case: "string", value: { prefix: "a" } } });
    expect(() => keywordsOf(field, { field: rules, json: undefined, isNoToken: false, isVisible: false })).toThrow(
      "usergroup.v1.GetUserGroupRequest.user_group_id has the rule `prefix`, but scripts/openapi/rules.ts has no keyword",
    );
  });
});
