import { timestampNow } from "@bufbuild/protobuf/wkt";
import { http1 } from "@user-group-service/testing/http";
import { RUNTIMES } from "@user-group-service/testing/runtime";
import { beforeAll, describe, expect, it } from "vitest";
import { ADMIN_ENV, adminOf, bearer, issueToken } from "./support/admin.ts";
import { type HostedClient, HostedError, hostedClient } from "./support/hosted-client.ts";
import { newId } from "./support/matrix.ts";
import { suiteServer } from "./support/opened.ts";
import { metricOf } from "./support/operations.ts";
import { restCalls } from "./support/rest-calls.ts";
import { expectRestError } from "./support/rest-shape.ts";

describe.each(RUNTIMES)("the paths of the hosted service on %s", (runtime) => {
  const server = suiteServer({ runtime, env: { ...ADMIN_ENV, LEGACY_PATHS: "on" } });
  const rest = restCalls(server);
  let hosted: HostedClient;
  let adminToken: string;
  beforeAll(async () => {
    ({ token: adminToken } = await issueToken(server, "admin"));
    hosted = hostedClient(server.url, adminToken);
  });
  const mapping = { "40": "213", "134": "386" };
  const properties = { filterValue: "value" };

  it("the paths serve all calls for customers, with and without a trailing slash", async () => {
    for (const client of [hosted, hostedClient(server.url, adminToken, "")]) {
      const provided_id = newId();
      // The request is an example in the documentation of the hosted service.
      const given = { emails: ["a@example.com"], group_tags: ["sales"], hierarchy_level_name: "Level 2" };
      const request = { provided_id, name: "Example 1", mapping, properties, ...given };
      const created = await client.createCustomer(request);
      const { token } = created.customer;
      const customer = {
        ...{ token, name: "Example 1", provided_id, is_demo_group: false, emails: [], group_tags: [] },
        ...{ properties, computed_properties: properties },
        ...{ parent_schema_datasource_mapping: mapping, computed_parent_schema_datasource_mapping: mapping },
      };
      expect(created).toEqual({ success: 1, new_customer: true, customer });
      expect(await client.createCustomer({ ...request, name: "Other" })).toEqual({
        ...{ success: 1, new_customer: false, customer },
      });

      const changed = { filterValue: "new_value" };
      const updated = await client.updateCustomer({ provided_id, name: null, mapping: null, properties: changed });
      const now = { ...customer, properties: changed, computed_properties: changed };
      expect(updated).toEqual({ success: 1, customer: now });

      const refreshed = await client.refreshCustomerToken({ current_token: token });
      expect(refreshed).toEqual({ success: 1, customer: { ...now, token: refreshed.customer.token } });
      expect(refreshed.customer.token).not.toBe(token);
      await expect(client.refreshCustomerToken({ current_token: token })).rejects.toMatchObject({
        ...{ status: 404, body: { success: 0, error: { reason: "TOKEN_NOT_FOUND" } } },
      });
      await expect(client.deleteCustomer({ current_token: token })).rejects.toMatchObject({ status: 404 });
      expect(await client.deleteCustomer({ current_token: refreshed.customer.token })).toEqual({ success: 1 });
      await expect(client.updateCustomer({ provided_id, name: "N" })).rejects.toMatchObject({ status: 404 });
    }
  });

  it("the paths serve all calls for user groups, with the same results as /api/user and the RPCs", async () => {
    const user_group_id = newId();
    const request = { user_group_id, name: "Example 1", mapping, properties, is_demo_group: true };
    const { user_group, ...created } = await hosted.createUserGroup(request);
    const { team_id, token } = user_group;
    const shown = {
      ...{ team_id, token, name: "Example 1", provided_id: user_group_id, is_demo_group: false },
      ...{ properties, api_environment_tag: "Customer" },
    };
    expect({ ...created, user_group }).toEqual({ success: 1, new_user_group: true, user_group: shown });
    const reported = await rest.ok(rest.call("GET", { user_group_id }));
    expect(reported.user_group).toEqual({ team_id, token, name: "Example 1", provided_id: user_group_id, properties });
    const viewer = await rest.call("POST", { token }, { target: "/api/viewer" });
    expect(viewer.json()).toMatchObject({ sub: user_group_id, team_id, mapping, properties });
    const { userGroup } = await adminOf(server.url, adminToken).lookupUserGroup({ userGroupId: user_group_id });
    expect([userGroup?.teamId, userGroup?.mapping]).toEqual([BigInt(team_id), mapping]);
    // If a customer and a user group have the same id, they are the same group.
    expect((await hosted.createCustomer({ provided_id: user_group_id })).customer.token).toBe(token);

    const updated = await hosted.updateUserGroup({ user_group_id, name: "Example 2" });
    expect(updated).toEqual({ success: 1, user_group: { ...shown, name: "Example 2" } });
    const refreshed = await hosted.refreshUserGroupToken({ current_token: token });
    expect((await rest.ok(rest.call("GET", { user_group_id }))).user_group.token).toBe(refreshed.user_group.token);
    expect(await hosted.deleteUserGroup({ current_token: refreshed.user_group.token })).toEqual({ success: 1 });
    expect((await hosted.createUserGroup({ user_group_id })).new_user_group).toBe(true);
  });

  it("an imported token of the hosted service is accepted", async () => {
    const [providedId, gone] = [newId(), newId()];
    const [token, other] = [`${"a".repeat(63)}1`, `${"b".repeat(63)}2`];
    const userGroups = [
      { providedId, name: "N", token },
      { providedId: gone, token: other },
    ];
    await adminOf(server.url, adminToken).importUserGroups({ userGroups, snapshotTime: timestampNow() });
    expect((await hosted.createCustomer({ provided_id: providedId })).customer.token).toBe(token);
    const { customer } = await hosted.refreshCustomerToken({ current_token: token });
    expect(customer).toMatchObject({ provided_id: providedId, name: "N" });
    expect(await hosted.deleteCustomer({ current_token: other })).toEqual({ success: 1 });
  });

  it("generate_jwt creates a viewer session for a customer", async () => {
    const provided_id = newId();
    await hosted.createCustomer({ provided_id, properties });
    // The request is an example in the documentation of the hosted service. The test adds other documented fields.
    const request = { provided_id, embed_id: "abcde", key_id: "aa111111-1a11-111a-aa11-1aaaa11a1a11" };
    const reported = async (more: object) => {
      const answer = await hosted.generateJwt({ ...request, ...more });
      expect(answer).toEqual({ success: 1, jwt: expect.stringMatching(/^[\w-]+\.[\w-]+\.[\w-]+$/) });
      const requested = await rest.call("POST", { token: answer.jwt, audience: "abcde" }, { target: "/api/viewer" });
      const { iat, exp, ...viewer } = requested.json<{ iat: number; exp: number }>();
      return { ...viewer, lasts: exp - iat };
    };
    expect(await reported({ expiration: "PT15M" })).toMatchObject({
      ...{ active: true, sub: provided_id, aud: "abcde", properties, ext: null, origin: null, lasts: 900 },
    });
    for (const expiration of [null, "PT1H", "P1D", "P0Y0M0W0DT2H0M0S"]) {
      expect(await reported({ expiration })).toMatchObject({ lasts: 3600 });
    }
    const allowed = { chart_id: "c", rb_allowed_features: ["view"], disable_editable_section_editing: true };
    expect(await reported({ ...allowed, embed_origin: "app.example.com", expiration: "PT1M1S" })).toMatchObject({
      ...{ ext: allowed, origin: "https://app.example.com", lasts: 61 },
    });
    expect(await reported({ embed_origin: "http://localhost:3000" })).toMatchObject({
      origin: "http://localhost:3000",
    });
  });

  it("calls need the same roles as RPCs, and appear as RPCs in the audit trail and the metrics", async () => {
    const manage = hostedClient(server.url, server.tokens.customer);
    const provided_id = newId();
    const { customer } = await manage.createCustomer({ provided_id });
    await expect(manage.deleteCustomer({ current_token: customer.token })).rejects.toMatchObject({
      ...{ status: 403, body: { success: 0, error: { reason: "ROLE_TOO_LOW", required_role: "admin" } } },
    });
    const labels = { grpc_method: "DeleteUserGroup", protocol: "rest", grpc_code: "OK" };
    const deletions = async () =>
      (await metricOf(server, "grpc_server_handled_total", labels)) ?? expect.fail("no series");
    const before = await deletions();
    await hosted.deleteCustomer({ current_token: customer.token });
    expect((await deletions()) - before).toBe(1);
    const admin = adminOf(server.url, adminToken);
    const { auditEvents } = await admin.listAuditEvents({ userGroupId: provided_id });
    expect(auditEvents.map(({ method }) => method)).toEqual(["DeleteUserGroup", "GetUserGroup"]);
    // Another environment has its own groups.
    const testing = hostedClient(server.url, server.tokens.testing);
    expect((await testing.createCustomer({ provided_id })).customer.token).not.toBe(customer.token);
  });

  it("errors have an HTTP status, and a body with success 0", async () => {
    const failure = await hosted.updateCustomer({ provided_id: newId(), name: "N" }).catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(HostedError);
    expect(failure).toMatchObject({ status: 404, body: { success: 0, error: { reason: "USER_GROUP_NOT_FOUND" } } });
  });

  it.each([
    ["update_customer", "{}", "provided_id", "VALIDATION_FAILED"],
    ["create_customer", '{"user_group_id":"a"}', "provided_id", "VALIDATION_FAILED"],
    ["create_customer", '{"provided_id":null}', "provided_id", "VALIDATION_FAILED"],
    ["create_customer", '{"provided_id":7}', "provided_id", "VALIDATION_FAILED"],
    ["create_user_group", '{"user_group_id":""}', "user_group_id", "VALIDATION_FAILED"],
    ["create_user_group", '{"user_group_id":"a\\u0000"}', "user_group_id", "VALIDATION_FAILED"],
    ["create_user_group", '{"user_group_id":"a","mapping":{"40":213}}', "mapping", "MALFORMED_REQUEST"],
    ["update_user_group", '{"user_group_id":"a","properties":[]}', "properties", "MALFORMED_REQUEST"],
    ["update_customer", '{"provided_id":"a","new_provided_id":"b"}', "new_provided_id", "VALIDATION_FAILED"],
    ["create_customer", '{"provided_id":"a","parent_provided_id":"b"}', "parent_provided_id", "VALIDATION_FAILED"],
    ["refresh_customer_token", '{"provided_id":"a"}', "current_token", "VALIDATION_FAILED"],
    ["refresh_user_group_token", '{"current_token":["a"]}', "current_token", "VALIDATION_FAILED"],
    ["delete_customer", '{"provided_id":"a"}', "current_token", "VALIDATION_FAILED"],
    ["delete_user_group", "", "current_token", "VALIDATION_FAILED"],
    ["generate_jwt", '{"embed_id":"a"}', "provided_id", "VALIDATION_FAILED"],
    ["generate_jwt", '{"provided_id":"a"}', "embed_id", "VALIDATION_FAILED"],
    ["generate_jwt", '{"provided_id":"a","embed_id":"a","expiration":"1h"}', "expiration", "VALIDATION_FAILED"],
    ["generate_jwt", '{"provided_id":"a","embed_id":"a","expiration":"P"}', "expiration", "VALIDATION_FAILED"],
    ["generate_jwt", '{"provided_id":"a","embed_id":"a","expiration":60}', "expiration", "VALIDATION_FAILED"],
    ["generate_jwt", '{"provided_id":"a","embed_id":"a","expiration":"PT59S"}', "ttl", "VALIDATION_FAILED"],
    ["generate_jwt", '{"provided_id":"a","embed_id":"a","embed_origin":"ftp://a"}', "origin", "VALIDATION_FAILED"],
    ["generate_jwt", '{"provided_id":"a","embed_id":"a","embed_origin":["a.com"]}', "origin", "MALFORMED_REQUEST"],
  ])("%s rejects the body %s", async (name, body, field, reason) => {
    const expected = { status: 400, code: "invalid_argument", reason, fields: [field] };
    const method = name.startsWith("delete_") ? "DELETE" : "POST";
    const answer = await http1(server.url, `/api/${name}/`, { method, headers: bearer(adminToken), body });
    expectRestError(answer, expected);
  });
});
