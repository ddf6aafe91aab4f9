import { create, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { timestampFromMs, timestampNow } from "@bufbuild/protobuf/wkt";
import { http1 } from "@user-group-service/testing/http";
import { RUNTIMES } from "@user-group-service/testing/runtime";
import { waitFor } from "@user-group-service/testing/wait";
import { describe, expect, it } from "vitest";
import { AdminService, ImportUserGroupsRequestSchema } from "../gen/usergroup/admin/v1/admin_service_pb.ts";
import { newApiToken, newUserGroupToken } from "../src/domain/token.ts";
import { ADMIN_ENV, adminOf, allPages, bearer, customerOf } from "./support/admin.ts";
import { suiteServer } from "./support/opened.ts";
import { metricOf } from "./support/operations.ts";
import { failureOf, grpcClients } from "./support/rpc.ts";

const PATH = `/${AdminService.typeName}/`;
const text = (length: number) => "x".repeat(length);
const base64 = (value: string | Buffer) => Buffer.from(value as string).toString("base64url");
const deep = (levels: number): object => (levels === 1 ? {} : { a: deep(levels - 1) });
const snapshotTime = new Date().toISOString();
const group = (given: object) => ({ userGroups: [{ providedId: "a", ...given }], snapshotTime });
const groups = (count: number) =>
  Array.from({ length: count }, (_, i) => ({ providedId: `g${i}`, token: `token-${i}-xx` }));

const TOKEN = newUserGroupToken();

const PAGED = ["ListUserGroups", "ExportUserGroups"] as const;
const BY_ID = ["LookupUserGroup", "DeleteUserGroup", "RevokeUserGroupTokens"] as const;

const REFUSED: readonly (readonly [method: string, fields: object, field: string])[] = [
  ...PAGED.flatMap((method) => [
    ...[-1, 1001, 2 ** 31 - 1].map((pageSize) => [method, { pageSize }, "page_size"] as const),
    // Invalid page tokens, in this order: not base64url, padded, not canonical, not UTF-8, two tokens of other lists,
    // and two tokens with a wrong length.
    ...["!", "YQ==", "YR", "_w", base64("id"), base64("acme/"), base64("x".repeat(12)), base64("x".repeat(13))].map(
      (pageToken) => [method, { pageToken }, "page_token"] as const,
    ),
    [method, { pageToken: base64(Buffer.alloc(40, 255)) }, "page_token"] as const,
    [method, { pageToken: text(2049) }, "page_token"] as const,
    ...[text(257), "a\u0000", "a\u0085", "a\n", TOKEN].map(
      (providedIdPrefix) => [method, { providedIdPrefix }, "provided_id_prefix"] as const,
    ),
    [method, { environment: { name: "a b" } }, "environment.name"] as const,
    [method, { environment: { name: TOKEN } }, "environment.name"] as const,
  ]),
  ...BY_ID.flatMap((method) => [
    ...[text(257), "a\u0007"].map((userGroupId) => [method, { userGroupId }, "user_group_id"] as const),
    [
      method,
      { userGroupId: "" },
      method === "DeleteUserGroup" ? "one of user_group_id, current_token" : "user_group_id",
    ] as const,
  ]),
  ["DeleteUserGroup", { userGroupId: "a", etag: text(65) }, "etag"],
  ...[text(129), "a b", "é"].map(
    (requestId) => ["RevokeUserGroupTokens", { userGroupId: "a", requestId }, "request_id"] as const,
  ),
  ["ImportUserGroups", {}, "user_groups"],
  ["ImportUserGroups", { userGroups: groups(501), snapshotTime }, "user_groups"],
  ["ImportUserGroups", { userGroups: groups(1), snapshotTime, mode: 99 }, "mode"],
  ["ImportUserGroups", { userGroups: groups(1) }, "snapshot_time"],
  ["ImportUserGroups", { userGroups: [{ providedId: "a" }, ...groups(1)] }, "snapshot_time"],
  ...["2999-01-01T00:00:00Z", new Date(Date.now() + 3_600_000).toISOString()].map(
    (time) => ["ImportUserGroups", { userGroups: groups(1), snapshotTime: time }, "snapshot_time"] as const,
  ),
  ...["-1s", "2592001s"].map(
    (previousTokenTtl) =>
      ["ImportUserGroups", { userGroups: groups(1), snapshotTime, previousTokenTtl }, "previous_token_ttl"] as const,
  ),
  ["ImportUserGroups", { userGroups: [{ providedId: "a" }, { providedId: "a" }] }, "user_groups\\[1\\].provided_id"],
  [
    "ImportUserGroups",
    { userGroups: ["a", "b"].map((providedId) => ({ providedId, token: "one-token" })), snapshotTime },
    "user_groups\\[1\\].token",
  ],
  ...["", text(257), "a\n", TOKEN].map(
    (providedId) => ["ImportUserGroups", { userGroups: [{ providedId }] }, "user_groups\\[0\\].provided_id"] as const,
  ),
  ...["", text(7), text(1025), "with space", "with\ttab", "ünicode-token"].map(
    (token) => ["ImportUserGroups", group({ token }), "user_groups\\[0\\].token"] as const,
  ),
  ["ImportUserGroups", group({ name: newApiToken() }), "user_groups\\[0\\].name"],
  ["ImportUserGroups", group({ name: text(257) }), "user_groups\\[0\\].name"],
  ["ImportUserGroups", group({ mapping: { "": "x" } }), "user_groups\\[0\\].mapping"],
  ["ImportUserGroups", group({ mapping: { a: text(1025) } }), "user_groups\\[0\\].mapping"],
  ["ImportUserGroups", group({ properties: { a: text(65_536) } }), "user_groups\\[0\\].properties"],
  ["ImportUserGroups", group({ properties: deep(33) }), "user_groups\\[0\\].properties"],
  ["ImportUserGroups", group({ properties: { n: 1e300 } }), "user_groups\\[0\\].properties"],
  [
    "ImportUserGroups",
    { userGroups: [{ providedId: "a" }, { providedId: "b", properties: { n: 1e300 } }] },
    "user_groups\\[1\\].properties",
  ],
];

describe.each(RUNTIMES)("the administration of user groups on %s", (runtime) => {
  const server = suiteServer({ runtime, env: ADMIN_ENV });

  const send = (method: string, body: string | Uint8Array, type = "application/json") => {
    const headers = { ...bearer(ADMIN_ENV.ADMIN_TOKEN), "content-type": type };
    return http1(server.url, PATH + method, { method: "POST", headers, body: Buffer.from(body as string) });
  };

  it.each(REFUSED)("rejects %s with the fields %.80j", async (method, fields, field) => {
    const answer = await send(method, JSON.stringify({ environment: customerOf(server), ...fields }));
    const error = JSON.parse(answer.body.toString()) as { code: string; message: string };
    expect(error).toMatchObject({ code: "invalid_argument" });
    expect(error.message).toMatch(new RegExp(`^${field}\\S*:? `));
    expect(answer.status).toBe(400);
    const { userGroups } = await adminOf(server.url).listUserGroups({ environment: customerOf(server) });
    expect(userGroups).toEqual([]);
  });

  it("rejects a page token of another method, environment or prefix", async () => {
    const admin = adminOf(server.url);
    const environment = { name: `e${crypto.randomUUID().slice(0, 8)}` };
    const other = { name: `${environment.name}-other` };
    for (const each of [environment, other]) {
      await admin.createEnvironment({ environment: each });
      await admin.importUserGroups({ environment: each, userGroups: groups(12), snapshotTime: timestampNow() });
    }
    const page = { environment, providedIdPrefix: "g", pageSize: 3 };
    const { nextPageToken: pageToken } = await admin.listUserGroups(page);
    expect(pageToken).not.toBe("");
    const refused = { code: "InvalidArgument", reason: "INVALID_PAGE_TOKEN" };
    expect(await failureOf(admin.exportUserGroups({ ...page, pageToken }))).toEqual(refused);
    expect(await failureOf(admin.listUserGroups({ ...page, environment: other, pageToken }))).toEqual(refused);
    for (const providedIdPrefix of ["", "g1", "h"]) {
      expect(await failureOf(admin.listUserGroups({ ...page, providedIdPrefix, pageToken }))).toEqual(refused);
    }
    // The page size may differ from the page size of the first request.
    expect((await admin.listUserGroups({ ...page, pageSize: 1000, pageToken })).userGroups).toHaveLength(9);
  });

  it("rejects a page token of audit events if the filter has changed", async () => {
    const admin = adminOf(server.url);
    const environment = { name: `e${crypto.randomUUID().slice(0, 8)}` };
    await admin.createEnvironment({ environment });
    await admin.importUserGroups({ environment, userGroups: groups(12), snapshotTime: timestampNow() });
    const page = { environment, method: "ImportUserGroups", pageSize: 3 };
    const { nextPageToken: pageToken } = await admin.listAuditEvents(page);
    expect(pageToken).not.toBe("");
    const refused = { code: "InvalidArgument", reason: "INVALID_PAGE_TOKEN" };
    for (const other of [
      { method: "" },
      { userGroupId: "g1" },
      { actorId: "root" },
      { startTime: timestampFromMs(1) },
      { endTime: timestampFromMs(Date.now() + 60_000) },
      { environment: customerOf(server) },
    ]) {
      expect(await failureOf(admin.listAuditEvents({ ...page, ...other, pageToken }))).toEqual(refused);
    }
    expect(await failureOf(admin.listUserGroups({ environment, pageToken }))).toEqual(refused);
    expect((await admin.listAuditEvents({ ...page, pageSize: 1000, pageToken })).auditEvents.length).toBeGreaterThan(0);
  });

  it("counts the results of an import, and logs one warning about failed groups", async () => {
    const admin = adminOf(server.url);
    const environment = { name: `e${crypto.randomUUID().slice(0, 8)}` };
    await admin.createEnvironment({ environment });
    const count = async (result: string) => (await metricOf(server, "ugs_import_results_total", { result })) ?? 0;
    const results = ["created", "unchanged", "USER_GROUP_EXISTS", "TOKEN_NOT_IMPORTABLE"];
    const counts = () => Promise.all(results.map(count));
    const before = await counts();
    const warnings = () => server.log().filter(({ msg }) => msg === "user groups were not imported");
    const known = warnings().length;
    await admin.importUserGroups({ environment, userGroups: groups(3), snapshotTime: timestampNow() });
    expect(warnings()).toHaveLength(known);
    const broken = newUserGroupToken().slice(0, -1);
    const userGroups = [
      ...groups(5).map((one, i) => (i < 2 ? { ...one, name: "another" } : one)),
      { providedId: "x", token: broken },
    ];
    const request = { environment, userGroups, snapshotTime: timestampNow() };
    await admin.importUserGroups(request, { headers: { "x-request-id": "of-the-import" } });
    expect((await counts()).map((now, i) => now - (before[i] ?? 0))).toEqual([5, 1, 2, 1]);
    await waitFor("the warning is logged", () => warnings().length > known);
    expect(warnings().slice(known)).toMatchObject([
      {
        level: "warn",
        environment: environment.name,
        api_token_id: "root",
        request_id: "of-the-import",
        failures: { USER_GROUP_EXISTS: 2, TOKEN_NOT_IMPORTABLE: 1 },
      },
    ]);
    expect(server.output()).not.toContain(broken);
  });

  it("rejects an entire import if one group is invalid, and the error contains no token", async () => {
    const token = "a string that is not a token";
    const userGroups_ = [...groups(3), { providedId: "z", token }];
    const request = { environment: customerOf(server), userGroups: userGroups_, snapshotTime };
    const answer = await send("ImportUserGroups", JSON.stringify(request));
    expect(answer.status).toBe(400);
    expect(answer.body.toString()).not.toContain(token);
    expect(server.output()).not.toContain(token);
    const { userGroups } = await adminOf(server.url).listUserGroups({ environment: customerOf(server) });
    expect(userGroups).toEqual([]);
  });

  it("needs less than ten seconds to reject an import in which one group is repeated 401 times", async () => {
    const one = (properties: object): Uint8Array => {
      const init: MessageInitShape<typeof ImportUserGroupsRequestSchema> = {
        environment: customerOf(server),
        userGroups: [{ providedId: "a", properties: properties as never }],
      };
      return toBinary(ImportUserGroupsRequestSchema, create(ImportUserGroupsRequestSchema, init));
    };
    const many = one(Object.fromEntries(Array.from({ length: 3000 }, (_, i) => [`k${i}`, i])));
    // The body consists of 401 requests, one after another. Protobuf merges them into one request with 401 entries.
    const body = Buffer.concat([many, ...Array.from({ length: 400 }, () => one({}))]);
    const started = performance.now();
    const answer = await send("ImportUserGroups", body, "application/proto");
    expect(answer.status).toBe(400);
    expect(performance.now() - started).toBeLessThan(10_000);
  });

  it("accepts values at the limits", async () => {
    const admin = adminOf(server.url);
    const environment = { name: `e${crypto.randomUUID().slice(0, 8)}` };
    await admin.createEnvironment({ environment });
    const providedId = "👪".repeat(256);
    const edges = [
      { providedId, token: "!".repeat(1024), name: "n".repeat(256), properties: deep(32) as never },
      { providedId: "__proto__", token: "12345678", mapping: { constructor: "x" } },
    ];
    const { results } = await admin.importUserGroups({
      environment,
      userGroups: [...edges, ...groups(498)],
      snapshotTime: timestampNow(),
    });
    expect(results.map(({ outcome }) => outcome)).toEqual(Array(500).fill(1));
    const found = await allPages(
      (pageToken) => admin.listUserGroups({ environment, pageSize: 1000, pageToken }),
      ({ userGroups }) => userGroups.map((each) => each.providedId),
    );
    expect(found).toHaveLength(500);
    expect(found.at(-1)).toBe(providedId);
    const page = { environment, providedIdPrefix: providedId, includeTokens: true };
    expect((await admin.exportUserGroups(page)).userGroups.map(({ token }) => token)).toEqual(["!".repeat(1024)]);
    expect((await admin.lookupUserGroup({ environment, userGroupId: "__proto__" })).userGroup?.mapping).toEqual({
      constructor: "x",
    });
  });

  it("returns TOKEN_NOT_FOUND for an unknown token of any format", async () => {
    const { groups: own, viewers } = grpcClients(server);
    for (const value of ["-".repeat(12), "__proto__", "{}", "*", "foreign:x", "a".repeat(1024), "é"]) {
      const unknown = { code: "NotFound", reason: "TOKEN_NOT_FOUND" };
      expect(await failureOf(viewers.resolveViewer({ token: value }))).toEqual(unknown);
      const group_ = { case: "currentToken", value } as const;
      const requestId = crypto.randomUUID();
      expect(await failureOf(own.rotateUserGroupToken({ group: group_, requestId }))).toEqual(unknown);
    }
  });
});
