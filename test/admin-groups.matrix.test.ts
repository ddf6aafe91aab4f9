import { timestampDate, timestampNow } from "@bufbuild/protobuf/wkt";
import type { Client } from "@connectrpc/connect";
import { forSuite } from "@user-group-service/testing/opened";
import { expect, it } from "vitest";
import { type AdminService, ImportMode } from "../gen/usergroup/admin/v1/admin_service_pb.ts";
import { ImportResult_Outcome as Outcome } from "../gen/usergroup/admin/v1/user_group_pb.ts";
import { ApiEnvironmentTag } from "../gen/usergroup/v1/user_group_pb.ts";
import { newUserGroupToken } from "../src/domain/token.ts";
import { ADMIN_CLIENTS, adminOf, allPages, customerOf, issueToken, suiteAdmins } from "./support/admin.ts";
import { describeClients, describeServers } from "./support/matrix.ts";
import { failureOf, grpcClients } from "./support/rpc.ts";
import type { TestServer } from "./support/server.ts";

let lastId = 0;
const newId = () => `admin group ${++lastId}/é{x}`;
const newToken = () => `other-system.${crypto.randomUUID()}`;

function newAdminToken(server: TestServer) {
  return forSuite(
    async () => ({ text: (await issueToken(server, "admin")).token }),
    () => {},
  );
}

describeClients(ADMIN_CLIENTS, (server, options) => {
  const root = suiteAdmins(server, options);
  const adminToken = newAdminToken(server);
  const admin = () => root(adminToken.text);
  const own = () => grpcClients(server);

  it("LookupUserGroup returns a group by id, and does not create a missing group", async () => {
    const userGroupId = newId();
    const missing = { code: "NotFound", reason: "USER_GROUP_NOT_FOUND" };
    for (const call of [admin().lookupUserGroup, admin().deleteUserGroup, admin().revokeUserGroupTokens]) {
      expect(await failureOf(call({ userGroupId }))).toEqual(missing);
    }
    const given = { userGroupId, name: "N", mapping: { s: "d" }, properties: { p: [1, null] } };
    const { userGroup, newUserGroup } = await own().groups.getUserGroup(given);
    expect(newUserGroup).toBe(true);
    const { userGroup: seen } = await admin().lookupUserGroup({ userGroupId });
    const { teamId, name, providedId, mapping, properties, etag, createTime, updateTime } = userGroup ?? {};
    expect(seen).toMatchObject({ teamId, name, providedId, mapping, properties, etag, createTime, updateTime });
    expect(seen).toMatchObject({ tokenCreateTime: userGroup?.tokenCreateTime, importedToken: false });
    expect([seen?.lastRotationTime, seen?.graceExpireTime]).toEqual([undefined, undefined]);
    const rotation = { group: { case: "userGroupId", value: userGroupId } as const };
    await own().groups.rotateUserGroupToken({ ...rotation, previousTokenTtl: { seconds: 3600n } });
    const { userGroup: after } = await root().lookupUserGroup({ environment: customerOf(server), userGroupId });
    const rotated = after?.lastRotationTime && timestampDate(after.lastRotationTime).getTime();
    const until = after?.graceExpireTime && timestampDate(after.graceExpireTime).getTime();
    expect(Math.abs((until ?? 0) - (rotated ?? 0) - 3_600_000)).toBeLessThan(1000);
    expect(after?.tokenCreateTime).toEqual(after?.lastRotationTime);
  });

  it("LookupUserGroupToken finds a group only in the caller's environment, and does not return the token of the group", async () => {
    const userGroupId = newId();
    const { userGroup } = await own().groups.getUserGroup({ userGroupId, name: "N" });
    const token = userGroup?.token ?? "";
    const environment = customerOf(server);
    const reported = await admin().lookupUserGroupToken({ token });
    expect(reported).toMatchObject({ userGroup: { providedId: userGroupId, name: "N" }, environment });
    expect([reported.tokenExpireTime, reported.session]).toEqual([undefined, undefined]);
    expect(await root().lookupUserGroupToken({ environment, token })).toEqual(reported);
    const group = { case: "token", value: token } as const;
    const { session, id } = await own().viewers.createViewerSession({ group, audience: "page", viewerId: "bob" });
    const ofSession = await admin().lookupUserGroupToken({ token: session });
    expect(ofSession).toMatchObject({ userGroup: { providedId: userGroupId }, session: { id, viewerId: "bob" } });
    await own().groups.rotateUserGroupToken({
      group: { case: "currentToken", value: token },
      previousTokenTtl: { seconds: 3600n },
    });
    const replaced = await admin().lookupUserGroupToken({ token });
    expect(replaced.tokenExpireTime).toEqual(replaced.userGroup?.graceExpireTime);
    expect(replaced.tokenExpireTime).toBeDefined();

    const unknown = { code: "NotFound", reason: "TOKEN_NOT_FOUND" };
    const testing = { name: server.environment, tag: ApiEnvironmentTag.TESTING };
    expect(await failureOf(admin().lookupUserGroupToken({ token: newUserGroupToken() }))).toEqual(unknown);
    expect(await failureOf(root().lookupUserGroupToken({ environment: testing, token }))).toEqual(unknown);
    expect(await failureOf(root().lookupUserGroupToken({ environment: testing, token: session }))).toEqual({
      code: "NotFound",
      reason: "VIEWER_SESSION_INVALID",
    });
    await admin().revokeUserGroupTokens({ userGroupId });
    expect(await failureOf(admin().lookupUserGroupToken({ token }))).toEqual(unknown);
    expect((await failureOf(admin().lookupUserGroupToken({ token: session }))).reason).toBe("VIEWER_SESSION_ENDED");
  });

  it("RevokeUserGroupTokens accepts a grace period, and viewer sessions stay valid during the grace period", async () => {
    const userGroupId = newId();
    const { userGroup } = await own().groups.getUserGroup({ userGroupId });
    const token = userGroup?.token ?? "";
    const group = { case: "token", value: token } as const;
    const { session } = await own().viewers.createViewerSession({ group, audience: "page" });
    await admin().revokeUserGroupTokens({ userGroupId, previousTokenTtl: { seconds: 3600n } });
    expect((await own().viewers.resolveViewer({ token })).tokenExpireTime).toBeDefined();
    expect((await own().viewers.resolveViewer({ token: session })).providedId).toBe(userGroupId);
    await admin().revokeUserGroupTokens({ userGroupId });
    for (const ended of [token, session])
      expect((await failureOf(own().viewers.resolveViewer({ token: ended }))).code).toBe("NotFound");
    const tooLong = admin().revokeUserGroupTokens({ userGroupId, previousTokenTtl: { seconds: 2_592_001n } });
    expect((await failureOf(tooLong)).code).toBe("InvalidArgument");
  });

  it("DeleteUserGroup deletes a group by id and etag or by token, and rejects a request with both an id and a token", async () => {
    const userGroupId = newId();
    const { userGroup } = await own().groups.getUserGroup({ userGroupId });
    const { userGroup: changed } = await own().groups.updateUserGroup({ userGroupId, name: "N" });
    const stale = await failureOf(admin().deleteUserGroup({ userGroupId, etag: userGroup?.etag ?? "" }));
    expect(stale).toEqual({ code: "Aborted", reason: "ETAG_MISMATCH" });
    await admin().deleteUserGroup({ userGroupId, etag: changed?.etag ?? "" });
    const again = await own().groups.getUserGroup({ userGroupId });
    expect(again.newUserGroup).toBe(true);
    const currentToken = again.userGroup?.token ?? "";
    const invalid = { code: "InvalidArgument", reason: "VALIDATION_FAILED" };
    for (const request of [{}, { userGroupId, currentToken }, { currentToken: "x".repeat(1025) }]) {
      expect(await failureOf(admin().deleteUserGroup(request))).toEqual(invalid);
    }
    await expect(admin().deleteUserGroup({})).rejects.toThrow("] one of user_group_id, current_token must be set");
    await admin().deleteUserGroup({ currentToken });
    const gone = { code: "NotFound", reason: "TOKEN_NOT_FOUND" };
    expect(await failureOf(admin().deleteUserGroup({ currentToken }))).toEqual(gone);
  });

  it("RevokeUserGroupTokens revokes tokens only once if a request id is repeated, and does not return the new token", async () => {
    const userGroupId = newId();
    const { userGroup } = await own().groups.getUserGroup({ userGroupId });
    const token = userGroup?.token ?? "";
    const revocation = { userGroupId, requestId: `revoke-${lastId}` };
    const answer = await admin().revokeUserGroupTokens(revocation);
    expect(await failureOf(own().viewers.resolveViewer({ token }))).toMatchObject({ reason: "TOKEN_NOT_FOUND" });
    expect(await admin().revokeUserGroupTokens(revocation)).toEqual(answer);
    const { userGroup: now } = await own().groups.getUserGroup({ userGroupId });
    expect(answer.userGroup?.etag).toBe(now?.etag);
    const text = JSON.stringify(answer, (_, value) => (typeof value === "bigint" ? String(value) : value));
    for (const each of [token, now?.token]) expect(text).not.toContain(each);
  });

  it("ImportUserGroups imports tokens, reports the result of each group, and accepts the same import again", async () => {
    const [first, second, third, taken] = [newId(), newId(), newId(), newId()];
    await own().groups.getUserGroup({ userGroupId: third, name: "other" });
    const token = newToken();
    const userGroups = [
      { providedId: first, name: "A", mapping: { s: "d" }, properties: { p: { q: [1] } }, token },
      { providedId: second },
      { providedId: third, name: "given" },
      { providedId: taken, token: "ugt_cut-off" },
    ];
    const snapshotTime = timestampNow();
    const outcomes = async (mode?: ImportMode) => {
      const { results } = await admin().importUserGroups({ userGroups, snapshotTime, ...(mode && { mode }) });
      expect(results.map(({ providedId }) => providedId)).toEqual([first, second, third, taken]);
      expect(results[3]?.failure).toMatchObject({ code: 3, reason: "TOKEN_NOT_IMPORTABLE" });
      expect(results[3]?.failure?.message).not.toContain("ugt_cut-off");
      const [third_] = results.slice(2);
      const isFailed = third_?.outcome === Outcome.FAILED;
      expect(third_?.failure?.reason).toBe(isFailed ? "USER_GROUP_EXISTS" : undefined);
      expect(third_?.failure?.code).toBe(isFailed ? 6 : undefined);
      return results.map(({ outcome }) => outcome);
    };
    const { CREATED, UNCHANGED, UPDATED, FAILED, TOKEN_NEWER } = Outcome;
    const wouldBe = await admin().importUserGroups({ userGroups, snapshotTime, validateOnly: true });
    expect(wouldBe.results.map(({ changedFields }) => changedFields)).toEqual([
      ["name", "mapping", "properties", "token"],
      ["name", "mapping", "token"],
      [],
      [],
    ]);
    expect(wouldBe.results.map(({ outcome }) => outcome)).toEqual([CREATED, CREATED, FAILED, FAILED]);
    expect(await outcomes()).toEqual([CREATED, CREATED, FAILED, FAILED]);
    expect(await outcomes(ImportMode.CREATE_ONLY)).toEqual([UNCHANGED, UNCHANGED, FAILED, FAILED]);
    expect(await outcomes(ImportMode.UPSERT)).toEqual([UNCHANGED, UNCHANGED, UPDATED, FAILED]);
    expect(await outcomes(ImportMode.UPSERT)).toEqual([UNCHANGED, UNCHANGED, UNCHANGED, FAILED]);

    const { userGroup } = await own().groups.getUserGroup({ userGroupId: first });
    expect(userGroup).toMatchObject({ name: "A", mapping: { s: "d" }, properties: { p: { q: [1] } }, token });
    expect((await own().viewers.resolveViewer({ token })).providedId).toBe(first);
    expect((await own().groups.getUserGroup({ userGroupId: second })).userGroup?.name).toBe(second);
    expect((await admin().lookupUserGroup({ userGroupId: first })).userGroup?.importedToken).toBe(true);
    const rotated = await own().groups.rotateUserGroupToken({ group: { case: "currentToken", value: token } });
    const younger = rotated.userGroup?.token ?? "";
    expect(await outcomes(ImportMode.UPSERT)).toEqual([TOKEN_NEWER, UNCHANGED, UNCHANGED, FAILED]);
    expect((await own().groups.getUserGroup({ userGroupId: first })).userGroup?.token).toBe(younger);
    const forced = { replaceNewerTokens: true, previousTokenTtl: { seconds: 3600n } };
    await admin().importUserGroups({ userGroups, snapshotTime, mode: ImportMode.UPSERT, ...forced });
    expect((await own().viewers.resolveViewer({ token })).tokenExpireTime).toBeUndefined();
    expect((await own().viewers.resolveViewer({ token: younger })).tokenExpireTime).toBeDefined();
  });

  it("ListUserGroups and ExportUserGroups return every group once, page by page", async () => {
    const prefix = `${newId()}:`;
    const ids = Array.from({ length: 25 }, (_, i) => `${prefix}${String.fromCodePoint(0x1f300 + i)}`);
    await admin().importUserGroups({
      userGroups: ids.map((providedId) => ({ providedId, mapping: { s: providedId } })),
    });
    const itemsOf = <T>({ userGroups }: { userGroups: T[] }) => {
      expect(userGroups.length).toBeLessThanOrEqual(4);
      return userGroups;
    };
    const listed = await allPages(
      (pageToken) => admin().listUserGroups({ providedIdPrefix: prefix, pageSize: 4, pageToken }),
      itemsOf,
    );
    expect(listed.map(({ providedId }) => providedId)).toEqual(ids);
    for (const { mapping, name, providedId } of listed) expect([mapping, name]).toEqual([{}, providedId]);
    const exported = await allPages(
      (pageToken) => admin().exportUserGroups({ providedIdPrefix: prefix, pageSize: 4, pageToken }),
      itemsOf,
    );
    expect(exported.map(({ mapping, token }) => [mapping, token])).toEqual(ids.map((id) => [{ s: id }, ""]));
    expect(exported[0]?.apiEnvironmentTag).toBe(ApiEnvironmentTag.CUSTOMER);
  });

  it("ExportUserGroups returns tokens only on request, and the audit trail contains each export with tokens", async () => {
    const prefix = `${newId()} ,`;
    const groups = await Promise.all([1, 2, 3].map((i) => own().groups.getUserGroup({ userGroupId: prefix + i })));
    const tokens = groups.map(({ userGroup }) => userGroup?.token);
    const environment = customerOf(server);
    const filter = { environment, method: "ExportUserGroups", pageSize: 1000 };
    const exports = async () => (await root().listAuditEvents(filter)).auditEvents;
    const before = (await exports()).length;
    for (const client of [admin(), root()]) {
      const request = { environment, providedIdPrefix: prefix };
      const without = await client.exportUserGroups(request);
      expect(without.userGroups.map(({ token }) => token)).toEqual(["", "", ""]);
      const none = { environment, includeTokens: true, providedIdPrefix: `${prefix} none` };
      expect((await client.exportUserGroups(none)).userGroups).toEqual([]);
      const { userGroups } = await client.exportUserGroups({ ...request, includeTokens: true });
      expect(userGroups.map(({ token }) => token)).toEqual(tokens);
    }
    const page = { environment, providedIdPrefix: prefix, includeTokens: true, pageSize: 2 };
    await root().exportUserGroups(page);
    const events = (await exports()).slice(0, -before || undefined);
    const said = { changedFields: ["token"], apiTokenId: "", userGroupId: "" };
    expect(events).toMatchObject([
      { ...said, role: "root", exported: { providedIdPrefix: prefix, count: 2 } },
      { ...said, role: "root", exported: { providedIdPrefix: prefix, count: 3 } },
      { ...said, role: "admin", exported: { providedIdPrefix: prefix, count: 3 } },
    ]);
  });
});

describeServers((server) => {
  const adminToken = newAdminToken(server);

  it("AdminService denies an API token access to other environments, and a request with ADMIN_TOKEN must name an environment", async () => {
    const userGroupId = newId();
    await grpcClients(server).groups.getUserGroup({ userGroupId });
    const admin = adminOf(server.url, adminToken.text);
    const other = { name: server.environment, tag: ApiEnvironmentTag.TESTING };
    const foreign = { code: "PermissionDenied", reason: "OTHER_ENVIRONMENT" };
    const root = adminOf(server.url);
    const unnamed = { code: "InvalidArgument", reason: "VALIDATION_FAILED" };
    const missing = { code: "NotFound", reason: "ENVIRONMENT_NOT_FOUND" };
    const none = { name: "no-such-environment" };
    for (const call of calls(userGroupId)) {
      expect(await failureOf(call(admin, other))).toEqual(foreign);
      expect(await failureOf(call(root, undefined))).toEqual(unnamed);
      expect(await failureOf(call(root, none))).toEqual(missing);
    }
    expect((await root.lookupUserGroup({ environment: customerOf(server), userGroupId })).userGroup?.name).toBe(
      userGroupId,
    );
    expect((await failureOf(root.lookupUserGroup({ environment: other, userGroupId }))).reason).toBe(
      "USER_GROUP_NOT_FOUND",
    );
  });

  it("the audit trail contains one event for each change of a group, and no event for a call that changes nothing", async () => {
    const admin = adminOf(server.url, adminToken.text);
    const [a, b] = [newId(), newId()];
    const token = newToken();
    const userGroups = [{ providedId: a, token, properties: { p: 1 } }, { providedId: b }];
    for (let i = 0; i < 2; i++) await admin.importUserGroups({ userGroups, snapshotTime: timestampNow() });
    await admin.importUserGroups({
      userGroups: [{ providedId: a, name: "N", token: newToken() }],
      mode: ImportMode.UPSERT,
      snapshotTime: timestampNow(),
    });
    for (let i = 0; i < 2; i++) await admin.revokeUserGroupTokens({ userGroupId: a, requestId: `r${lastId}` });
    await admin.deleteUserGroup({ userGroupId: a });
    await failureOf(admin.deleteUserGroup({ userGroupId: a }));
    const eventsOf = async (userGroupId: string) => {
      const { auditEvents } = await admin.listAuditEvents({ userGroupId });
      return auditEvents.map(({ method, changedFields }) => [method, [...changedFields].sort().join(",")]).reverse();
    };
    expect(await eventsOf(a)).toEqual([
      ["ImportUserGroups", "mapping,name,properties,token"],
      ["ImportUserGroups", "name,properties,token"],
      ["RevokeUserGroupTokens", "token"],
      ["DeleteUserGroup", ""],
    ]);
    expect(await eventsOf(b)).toEqual([["ImportUserGroups", "mapping,name,token"]]);
  });
});

function calls(userGroupId: string) {
  type Admin = Client<typeof AdminService>;
  const of = (call: (admin: Admin, request: object) => Promise<unknown>) => (admin: Admin, environment?: object) =>
    call(admin, environment ? { environment } : {});
  return [
    of((admin, request) => admin.listUserGroups(request)),
    of((admin, request) => admin.lookupUserGroup({ ...request, userGroupId })),
    of((admin, request) => admin.lookupUserGroupToken({ ...request, token: newUserGroupToken() })),
    of((admin, request) => admin.deleteUserGroup({ ...request, userGroupId })),
    of((admin, request) => admin.revokeUserGroupTokens({ ...request, userGroupId })),
    of((admin, request) => admin.importUserGroups({ ...request, userGroups: [{ providedId: userGroupId }] })),
    of((admin, request) => admin.exportUserGroups(request)),
  ];
}
