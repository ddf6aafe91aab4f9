import { create, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { Code } from "@connectrpc/connect";
import { http1 } from "@user-group-service/testing/http";
import { RUNTIMES } from "@user-group-service/testing/runtime";
import { describe, expect, it } from "vitest";
import {
  AdminService,
  CreateApiTokenRequestSchema,
  ListAuditEventsRequestSchema,
  type RevokeApiTokenRequestSchema,
} from "../gen/usergroup/admin/v1/admin_service_pb.ts";
import { Role } from "../gen/usergroup/admin/v1/api_token_pb.ts";
import { newApiToken, newUserGroupToken } from "../src/domain/token.ts";
import { ADMIN_ENV, adminOf, bearer, customerOf, issueToken } from "./support/admin.ts";
import { sharedServer } from "./support/opened.ts";

const PATH = "/usergroup.admin.v1.AdminService/";
const text = (length: number) => "x".repeat(length);
const base64 = (value: string) => Buffer.from(value).toString("base64url");

const REFUSED: readonly (readonly [method: string, fields: object, field: string])[] = [
  ["CreateEnvironment", { environment: null }, "environment"],
  ["DeleteEnvironment", { environment: null }, "environment"],
  ["GetEnvironment", { environment: null }, "environment"],
  ["GetEnvironment", { environment: { name: "a b" } }, "environment.name"],
  ["DeleteEnvironment", { environment: { name: "", tag: 1 } }, "environment.name"],
  ...["", "a/b", "a b", "{a}", "é", "a\n", "__proto__/", text(65), newUserGroupToken()].map(
    (name) => ["CreateEnvironment", { environment: { name } }, "environment.name"] as const,
  ),
  ["CreateEnvironment", { environment: { name: "a", tag: 99 } }, "environment.tag"],
  ...[-1, 1001, 2 ** 31 - 1].flatMap((pageSize) => [
    ["ListEnvironments", { environment: undefined, pageSize }, "page_size"] as const,
    ["ListApiTokens", { pageSize }, "page_size"] as const,
    ["ListAuditEvents", { pageSize }, "page_size"] as const,
  ]),
  // Invalid page tokens, in this order: not base64url, padded, of another list, a path, not canonical, not UTF-8, and
  // too long.
  ...["!", "YQ==", base64("a/Customer/"), base64("../a"), "YR", "_w", text(2049)].flatMap((pageToken) => [
    ["ListEnvironments", { environment: undefined, pageToken }, "page_token"] as const,
    ["ListApiTokens", { pageToken }, "page_token"] as const,
    ["ListAuditEvents", { pageToken }, "page_token"] as const,
  ]),
  ["ListEnvironments", { environment: undefined, pageToken: base64("id") }, "page_token"],
  ["ListApiTokens", { pageToken: base64("a/") }, "page_token"],
  ...["1", "1-1", "-1-1.0", "1-1.x", "1-1.0 ", "1-1.99999", `${"9".repeat(16)}-0.0`].map(
    (position) => ["ListAuditEvents", { pageToken: base64(position) }, "page_token"] as const,
  ),
  ["ListAuditEvents", { userGroupId: text(257) }, "user_group_id"],
  ["ListAuditEvents", { actorId: text(65) }, "actor_id"],
  ["ListAuditEvents", { method: text(65) }, "method"],
  ...["", text(129), "a\u0007", "a\u0085", newApiToken()].map(
    (displayName) => ["CreateApiToken", { displayName }, "display_name"] as const,
  ),
  ...[0, 99, -1].map((role) => ["CreateApiToken", { role }, "role"] as const),
  ["CreateApiToken", { expireTime: "2020-01-01T00:00:00Z" }, "expire_time"],
  ["CreateApiToken", { environment: { name: "a", tag: 99 } }, "environment.tag"],
  ...["", text(65)].flatMap((apiTokenId) =>
    ["RevokeApiToken", "UpdateApiToken", "RotateApiToken"].map(
      (method) => [method, { apiTokenId }, "api_token_id"] as const,
    ),
  ),
  ...[text(129), "a\u0007", "a\u0085"].map(
    (displayName) => ["UpdateApiToken", { apiTokenId: "a", displayName }, "display_name"] as const,
  ),
  ["UpdateApiToken", { apiTokenId: "a", updateMask: "displayName" }, "display_name"],
  ["UpdateApiToken", { apiTokenId: "a", updateMask: "*" }, "display_name"],
  ["UpdateApiToken", { apiTokenId: "a", expireTime: "2020-01-01T00:00:00Z" }, "expire_time"],
  ...["role", "displayName,*", "displayName.x"].map(
    (updateMask) => ["UpdateApiToken", { apiTokenId: "a", displayName: "a", updateMask }, "update_mask"] as const,
  ),
  ...["-1s", "2592001s"].map(
    (previousTokenTtl) => ["RotateApiToken", { apiTokenId: "a", previousTokenTtl }, "previous_token_ttl"] as const,
  ),
  ...["", text(513), `ugt_${text(38)}`].map(
    (token) => ["LookupApiToken", { environment: undefined, token }, "token"] as const,
  ),
  ["ListApiTokens", { role: 99 }, "role"],
  ["ListApiTokens", { creator: text(65) }, "creator"],
];

describe.each(RUNTIMES)("AdminService on %s", (runtime) => {
  const server = sharedServer({ runtime });
  const VALID = { displayName: "x", role: 1 };

  const send = (
    method: string,
    body: string | Uint8Array,
    type = "application/json",
    token = ADMIN_ENV.ADMIN_TOKEN,
  ) => {
    const headers = { ...bearer(token), "content-type": type };
    return http1(server.url, PATH + method, { method: "POST", headers, body: Buffer.from(body as string) });
  };

  it.each(REFUSED)("rejects %s with the fields %j", async (method, fields, field) => {
    const valid = method === "CreateApiToken" ? VALID : {};
    const request = { environment: customerOf(server), ...valid, ...fields };
    const answer = await send(method, JSON.stringify(request));
    const error = JSON.parse(answer.body.toString()) as { code: string; details: { debug?: unknown; type: string }[] };
    expect(error).toMatchObject({ code: "invalid_argument" });
    expect((error as unknown as { message: string }).message).toMatch(new RegExp(`^${field}:? `));
    expect(answer.status).toBe(400);
  });

  it("rejects an unknown tag instead of using the environment without a tag", async () => {
    const admin = adminOf(server.url);
    const name = `untagged-${runtime}`;
    await admin.createEnvironment({ environment: { name } });
    const answer = await send("DeleteEnvironment", JSON.stringify({ environment: { name, tag: "CUSTOMER" } }));
    expect(answer.status).toBe(400);
    expect(answer.body.toString()).toContain("tag: must be one of API_ENVIRONMENT_TAG_UNSPECIFIED, ");
    await admin.deleteEnvironment({ environment: { name } });
  });

  it.each([
    ["seconds beyond the year 9999", { seconds: 253_402_300_800n, nanos: 0 }],
    ["seconds beyond the integer range", { seconds: 2n ** 62n, nanos: 0 }],
    ["negative nanoseconds", { seconds: 253_402_300_700n, nanos: -1 }],
    ["two billion nanoseconds", { seconds: 253_402_300_700n, nanos: 2_000_000_000 }],
    ["seconds before the year 1", { seconds: -(2n ** 62n), nanos: 0 }],
  ])("rejects a time with %s", async (_title, expireTime) => {
    const values: MessageInitShape<typeof CreateApiTokenRequestSchema> = {
      environment: customerOf(server),
      displayName: "x",
      role: Role.READ,
      expireTime,
    };
    const binary = toBinary(CreateApiTokenRequestSchema, create(CreateApiTokenRequestSchema, values));
    const answer = await send("CreateApiToken", binary, "application/proto");
    expect(answer.status).toBe(400);
    expect(answer.body.toString()).toContain("expire_time");
    for (const [name, field] of [
      ["startTime", "start_time"],
      ["endTime", "end_time"],
    ] as const) {
      const list = create(ListAuditEventsRequestSchema, { environment: customerOf(server), [name]: expireTime });
      const refused = await send("ListAuditEvents", toBinary(ListAuditEventsRequestSchema, list), "application/proto");
      expect(refused.status).toBe(400);
      expect(refused.body.toString()).toContain(field);
    }
  });

  it("finds no API token by an id that looks like a Redis key", async () => {
    const { id } = await issueToken(server, "read");
    const admin = adminOf(server.url);
    const environment = customerOf(server);
    const otherCase = id.replace(/[a-z]/gi, (letter) =>
      /[a-z]/.test(letter) ? letter.toUpperCase() : letter.toLowerCase(),
    );
    for (const apiTokenId of [`${id}:`, `x:${id}`, `../${id}`, `{${id}}`, "*", "\0", otherCase, "__proto__"]) {
      const request: MessageInitShape<typeof RevokeApiTokenRequestSchema> = { environment, apiTokenId };
      await expect(admin.revokeApiToken(request)).rejects.toMatchObject({ code: Code.NotFound });
      await expect(admin.rotateApiToken(request)).rejects.toMatchObject({ code: Code.NotFound });
      const renamed = { ...request, displayName: "x" };
      await expect(admin.updateApiToken(renamed)).rejects.toMatchObject({ code: Code.NotFound });
    }
    expect((await admin.listApiTokens({ environment, pageSize: 1000 })).apiTokens.map((one) => one.id)).toContain(id);
  });

  it("finds no events of a group or caller whose id looks like a Redis key", async () => {
    const admin = adminOf(server.url);
    const environment = customerOf(server);
    await issueToken(server, "read");
    for (const odd of ["*", "}:events", "../a", "\0", "__proto__", "a\nb", "+", "(1-1"]) {
      expect(await admin.listAuditEvents({ environment, userGroupId: odd })).toMatchObject({ auditEvents: [] });
      expect(await admin.listAuditEvents({ environment, actorId: odd })).toMatchObject({ auditEvents: [] });
      expect(await admin.listAuditEvents({ environment, method: odd })).toMatchObject({ auditEvents: [] });
    }
    const ancient = { seconds: -62_135_596_800n, nanos: 0 };
    expect((await admin.listAuditEvents({ environment, startTime: ancient })).auditEvents.length).toBeGreaterThan(0);
    expect((await admin.listAuditEvents({ environment, endTime: ancient })).auditEvents).toEqual([]);
  });

  it("rejects GET, because the URL could contain a token, and a cache could store the response", async () => {
    for (const { name } of Object.values(AdminService.method)) {
      const answer = await http1(server.url, `${PATH}${name}?connect=v1&encoding=json&message=%7B%7D`, {
        headers: bearer(ADMIN_ENV.ADMIN_TOKEN),
      });
      expect(answer.status).toBe(405);
    }
    const made = await send("CreateApiToken", JSON.stringify({ environment: customerOf(server), ...VALID }));
    expect(made.status).toBe(200);
    expect(made.headers["cache-control"]).toBe("no-store");
  });
});
