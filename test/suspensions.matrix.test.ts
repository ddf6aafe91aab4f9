import { timestampDate, timestampFromMs } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError, createClient } from "@connectrpc/connect";
import { http1 } from "@user-group-service/testing/http";
import { forSuite } from "@user-group-service/testing/opened";
import { waitFor } from "@user-group-service/testing/wait";
import { expect, it } from "vitest";
import { ErrorInfoSchema } from "../gen/google/rpc/error_details_pb.ts";
import { ImportMode } from "../gen/usergroup/admin/v1/admin_service_pb.ts";
import { ImportResult_Outcome as Outcome } from "../gen/usergroup/admin/v1/user_group_pb.ts";
import { UserGroupService } from "../gen/usergroup/v1/user_group_service_pb.ts";
import { ViewerService } from "../gen/usergroup/v1/viewer_service_pb.ts";
import {
  ADMIN_CLIENTS,
  ADMIN_ENV,
  type AdminClientOptions,
  adminOf,
  auditEventsOf,
  bearer,
  customerOf,
  issueToken,
  openAdminTransport,
  presenting,
} from "./support/admin.ts";
import { describeClients, describeServers, newId } from "./support/matrix.ts";
import { describeWithRedis, newRedis, newServer } from "./support/opened.ts";
import { failureOf, grpcClients } from "./support/rpc.ts";
import type { TestServer } from "./support/server.ts";

const SUSPENDED = { code: "FailedPrecondition", reason: "USER_GROUP_SUSPENDED" };

const given = { reason: "unpaid invoice 7", message: "Please contact us." };

async function newGroup(server: TestServer) {
  const { groups, viewers } = grpcClients(server);
  const userGroupId = newId();
  const values = { userGroupId, name: "N", mapping: { s: "d" }, properties: { secret: "x7" } };
  const { userGroup } = await groups.getUserGroup(values);
  if (!userGroup) return expect.fail("no group");
  const group = { case: "token", value: userGroup.token } as const;
  const { session } = await viewers.createViewerSession({ group, audience: "page" });
  return { userGroupId, userGroup, session, group };
}

describeClients(ADMIN_CLIENTS, (server, options: AdminClientOptions) => {
  const opened = forSuite(
    () => openAdminTransport(server.url, options),
    ({ close }) => close(),
  );
  const admin = () => adminOf(server.url);
  const clients = (token = server.tokens.customer) => {
    const transport = presenting(opened.transport, token);
    return { viewers: createClient(ViewerService, transport), groups: createClient(UserGroupService, transport) };
  };

  it("the tokens and sessions of a suspended group are rejected for every role, until the group is resumed", async () => {
    const { userGroupId, userGroup, session, group } = await newGroup(server);
    const environment = customerOf(server);
    const tokens = await Promise.all(
      (["resolve", "read", "manage", "admin"] as const).map(async (role) => (await issueToken(server, role)).token),
    );
    const calls = (token: string) => {
      const { viewers } = clients(token);
      return [
        viewers.resolveViewer({ token: userGroup.token }),
        viewers.resolveViewer({ token: session }),
        viewers.createViewerSession({ group, audience: "page" }),
      ];
    };
    const { userGroup: suspended } = await admin().suspendUserGroup({ environment, userGroupId, ...given });
    expect(suspended?.suspension).toMatchObject(given);
    expect(suspended?.suspension?.until).toBeUndefined();
    for (const token of tokens) {
      const errors = calls(token).map((call) => call.then(() => expect.fail("the call succeeded"), ConnectError.from));
      for (const error of await Promise.all(errors)) {
        const [info] = error.findDetails(ErrorInfoSchema);
        expect(error.code).toBe(Code.FailedPrecondition);
        expect(info).toMatchObject({ reason: SUSPENDED.reason, metadata: { suspension_message: given.message } });
        // The error must contain no data of the group. It must also not contain the reason of the suspension, which
        // only operators may see.
        expect([...error.metadata].join() + error.message + JSON.stringify(info)).not.toMatch(/x7|invoice/);
      }
    }
    const byId = { case: "userGroupId", value: userGroupId } as const;
    expect(await failureOf(clients(tokens[1]).viewers.createViewerSession({ group: byId, audience: "p" }))).toEqual(
      SUSPENDED,
    );

    await admin().resumeUserGroup({ environment, userGroupId });
    for (const token of tokens) await Promise.all(calls(token));
    const { userGroup: now } = await clients().groups.getUserGroup({ userGroupId });
    const { etag: _, updateTime: _time, ...same } = userGroup;
    expect(now).toMatchObject(same);
  });

  it("responses contain the suspension of a suspended group but not its token, even after changes of the group", async () => {
    const { userGroupId, userGroup, session, group } = await newGroup(server);
    const environment = customerOf(server);
    await admin().suspendUserGroup({ environment, userGroupId, ...given });
    const { groups } = clients();
    const current = { case: "currentToken", value: userGroup.token } as const;
    const values = { userGroupId, name: "Other", properties: {}, expireTime: timestampFromMs(1) };
    const got = await groups.getUserGroup(values);
    expect(got.newUserGroup).toBe(false);
    expect(got.userGroup).toMatchObject({ teamId: userGroup.teamId, name: "N", properties: { secret: "x7" } });
    const readToken = (await issueToken(server, "read")).token;
    const answers = [
      got,
      await clients(readToken).groups.getUserGroup({ userGroupId }),
      await groups.updateUserGroup({ userGroupId, name: "M" }),
      await groups.rotateUserGroupToken({ group: current, previousTokenTtl: { seconds: 600n } }),
    ];
    for (const { userGroup: shown } of answers) {
      expect(shown).toMatchObject({ token: "", suspension: given });
      expect(shown?.expireTime).toBeUndefined();
    }
    expect(await failureOf(clients().viewers.resolveViewer({ token: userGroup.token }))).toEqual(SUSPENDED);
    // Operators can still look up the group of a leaked token or session.
    for (const token of [userGroup.token, session]) {
      const found = await admin().lookupUserGroupToken({ environment, token });
      expect(found.userGroup).toMatchObject({ providedId: userGroupId, suspension: given });
    }
    await admin().resumeUserGroup({ environment, userGroupId });
    const { userGroup: now } = await groups.getUserGroup({ userGroupId });
    expect(now?.token).toMatch(/^ugt_/);
    expect(now?.token).not.toBe(userGroup.token);
    for (const token of [now?.token ?? "", group.value, session])
      expect(await clients().viewers.resolveViewer({ token })).toMatchObject({ name: "M" });
  });

  it("a group is suspended when it expires, and a suspension with the field `until` ends at this time", async () => {
    const userGroupId = newId();
    const expireTime = timestampFromMs(Date.now() + 3_600_000);
    const { groups, viewers } = clients();
    const { userGroup } = await groups.getUserGroup({ userGroupId, expireTime });
    expect([userGroup?.expireTime, userGroup?.suspension]).toEqual([expireTime, undefined]);
    const token = userGroup?.token ?? "";
    // A session expires no later than its group.
    const soon = timestampFromMs(Math.ceil(Date.now() / 1000) * 1000 + 120_000);
    await groups.updateUserGroup({ userGroupId, expireTime: soon });
    const created = await viewers.createViewerSession({ group: { case: "token", value: token }, audience: "page" });
    expect(created.expireTime).toEqual(soon);

    const past = timestampFromMs(Date.now() - 1);
    const { userGroup: expired } = await groups.updateUserGroup({ userGroupId, expireTime: past });
    expect(expired).toMatchObject({ token: "", suspension: { reason: "EXPIRED", message: "", suspendTime: past } });
    expect(await failureOf(viewers.resolveViewer({ token }))).toEqual(SUSPENDED);
    const named = { environment: customerOf(server), userGroupId };
    const refused = { code: "FailedPrecondition", reason: "USER_GROUP_EXPIRED" };
    expect(await failureOf(admin().resumeUserGroup(named))).toEqual(refused);
    const { userGroup: cleared } = await groups.updateUserGroup({
      userGroupId,
      updateMask: { paths: ["expire_time"] },
    });
    expect([cleared?.token, cleared?.expireTime, cleared?.suspension]).toEqual([token, undefined, undefined]);

    const until = timestampFromMs(Date.now() + 1500);
    await admin().suspendUserGroup({ ...named, until });
    await waitFor("the suspension ends", () =>
      viewers.resolveViewer({ token }).then(
        () => true,
        () => false,
      ),
    );
    expect(Date.now()).toBeGreaterThanOrEqual(Number(until.seconds) * 1000 + until.nanos / 1e6);
  });

  it.each<[string, object]>([
    ["a reason of 257 characters", { reason: "x".repeat(257) }],
    ["a message of 513 characters", { message: "x".repeat(513) }],
    ["a control character in the reason", { reason: "a\u0000b" }],
    ["a line break in the message", { message: "a\nb" }],
    ["a C1 control character in the message", { message: "a\u0085b" }],
    ["the reserved reason", { reason: "EXPIRED" }],
    ["an end in the past", { until: timestampFromMs(Date.now() - 1000) }],
    ["an end in the year 1", { until: timestampFromMs(-62_135_596_800_000) }],
    ["an empty id", { userGroupId: "" }],
  ])("SuspendUserGroup rejects %s, and changes nothing", async (_, bad) => {
    const { userGroupId } = await newGroup(server);
    const named = { environment: customerOf(server), userGroupId };
    const refused = { code: "InvalidArgument", reason: "VALIDATION_FAILED" };
    expect(await failureOf(admin().suspendUserGroup({ ...named, ...bad }))).toEqual(refused);
    expect((await admin().lookupUserGroup(named)).userGroup?.suspension).toBeUndefined();
  });

  it("SuspendUserGroup accepts texts of maximum length, even with characters outside of the Unicode BMP", async () => {
    const { userGroupId } = await newGroup(server);
    const longest = { reason: "💡".repeat(256), message: "é".repeat(512) };
    const { userGroup } = await admin().suspendUserGroup({ environment: customerOf(server), userGroupId, ...longest });
    expect(userGroup?.suspension).toMatchObject(longest);
  });
});

describeServers((server) => {
  const call = (method: string, path: string, body: unknown, token = server.tokens.customer) =>
    http1(server.url, path, {
      method,
      headers: { ...bearer(token), "content-type": "application/json" },
      body: typeof body === "string" ? body : JSON.stringify(body),
    });

  it("REST rejects reads and sessions of a suspended group, and responses to changes omit the token of the group", async () => {
    const { userGroupId, userGroup, session } = await newGroup(server);
    const admin = adminOf(server.url);
    const named = { environment: customerOf(server), userGroupId };
    const { userGroup: info } = await admin.suspendUserGroup({ ...named, ...given });
    for (const token of [userGroup.token, session]) {
      const answer = await call("POST", "/api/viewer", { token });
      expect([answer.status, answer.headers["cache-control"]]).toEqual([200, "no-store"]);
      const inactive = { active: false, reason: SUSPENDED.reason, suspension_message: given.message };
      expect(answer.json()).toEqual(inactive);
    }
    for (const answer of [
      await call("GET", "/api/user", { user_group_id: userGroupId, name: "Other" }),
      await call("POST", "/api/viewer/session", { token: userGroup.token, audience: "page" }),
      await call("POST", "/api/viewer/session", { user_group_id: userGroupId, audience: "page" }),
    ]) {
      expect(answer.status).toBe(403);
      expect(answer.json()).toEqual({
        success: 0,
        error: {
          ...{ code: "failed_precondition", reason: SUSPENDED.reason, suspension_message: given.message },
          ...{ message: expect.any(String), field_violations: [] },
        },
      });
    }
    const suspendTime = info?.suspension?.suspendTime ?? expect.fail("no time");
    const state = { ...given, suspend_time: timestampDate(suspendTime).toISOString() };
    const fields = { team_id: Number(userGroup.teamId), token: "", provided_id: userGroupId, suspension: state };
    const put = await call("PUT", "/api/user", { user_group_id: userGroupId, name: "M" });
    const updated = { ...fields, name: "M", properties: { secret: "x7" }, api_environment_tag: "Customer" };
    expect([put.status, put.json()]).toEqual([200, { success: 1, user_group: updated }]);
    const post = await call("POST", "/api/user", { current_token: userGroup.token });
    const rotated = { ...fields, name: "M", api_environment_tag: "Customer" };
    expect([post.status, post.json()]).toEqual([200, { success: 1, user_group: rotated }]);

    await admin.resumeUserGroup(named);
    const got = await call("GET", "/api/user", { user_group_id: userGroupId });
    const { user_group } = got.json<{ user_group: { token: string } }>();
    expect(user_group).toEqual({
      ...updated,
      token: expect.stringMatching(/^ugt_/),
      suspension: undefined,
      api_environment_tag: undefined,
    });
    expect((await call("POST", "/api/viewer", { token: user_group.token })).json()).toMatchObject({ active: true });
  });

  it("REST sets and clears the expiry time of a group, and rejects invalid times", async () => {
    const id = newId();
    const expire_time = "2031-01-31T12:00:00.000Z";
    const created = await http1(
      server.url,
      `/api/user?user_group_id=${encodeURIComponent(id)}&expire_time=${expire_time}`,
      {
        method: "GET",
        headers: bearer(server.tokens.customer),
      },
    );
    expect(created.json()).toMatchObject({ success: 1, new_user_group: true, user_group: { expire_time } });
    const put = (value: unknown) => call("PUT", "/api/user", { user_group_id: id, expire_time: value });
    for (const bad of [
      "NaN",
      "tomorrow",
      "2031-02-30T00:00:00Z",
      "10000-01-01T00:00:00Z",
      7,
      {},
      "",
      "0000-12-31T00:00:00Z",
    ]) {
      const answer = await put(bad);
      expect([answer.status, answer.json<{ success: number }>().success], String(bad)).toEqual([400, 0]);
    }
    for (const raw of ["NaN", "Infinity"]) {
      const answer = await call("PUT", "/api/user", `{"user_group_id":${JSON.stringify(id)},"expire_time":${raw}}`);
      expect(answer.status).toBe(400);
    }
    expect((await put("2031-01-31T12:00:00.1239Z")).json()).toMatchObject({
      user_group: { expire_time: "2031-01-31T12:00:00.123Z" },
    });
    expect((await put("0001-01-01T00:00:00Z")).json()).toMatchObject({
      user_group: { token: "", suspension: { reason: "EXPIRED" } },
    });
    const cleared = (await put(null)).json<{ user_group: object }>();
    expect(cleared).toMatchObject({ success: 1, user_group: { token: expect.stringMatching(/^ugt_/) } });
    expect(Object.keys(cleared.user_group)).not.toContain("expire_time");
  });

  it("the audit trail contains only suspensions and resumptions that change a group, without the reason and the message", async () => {
    const { userGroupId } = await newGroup(server);
    const admin = adminOf(server.url);
    const named = { environment: customerOf(server), userGroupId };
    for (let i = 0; i < 2; i++) await admin.suspendUserGroup({ ...named, ...given });
    await admin.suspendUserGroup({ ...named, ...given, message: "" });
    for (let i = 0; i < 2; i++) await admin.resumeUserGroup(named);
    const events = await auditEventsOf(server, { userGroupId });
    expect(events.map(({ method, changedFields }) => [method, ...changedFields])).toEqual([
      ["ResumeUserGroup", "suspension"],
      ["SuspendUserGroup", "suspension"],
      ["SuspendUserGroup", "suspension"],
      ["GetUserGroup", "name", "mapping", "properties", "token"],
    ]);
    expect(events.map((event) => Object.values(event).map(String).join())).not.toContainEqual(
      expect.stringMatching(/invoice|contact/),
    );
  });

  it("an export contains the token and the state of a suspended group, and an import never resumes a group", async () => {
    const { userGroupId, userGroup } = await newGroup(server);
    const admin = adminOf(server.url);
    const environment = customerOf(server);
    await admin.suspendUserGroup({ environment, userGroupId, ...given });
    const page = await admin.exportUserGroups({ environment, providedIdPrefix: userGroupId, includeTokens: true });
    const [exported] = page.userGroups;
    expect(exported).toMatchObject({ token: userGroup.token, suspension: given });
    const request = { environment, mode: ImportMode.UPSERT, snapshotTime: page.snapshotTime };
    const row = { providedId: userGroupId, name: "Imported", mapping: {}, token: userGroup.token };
    const { results } = await admin.importUserGroups({ ...request, userGroups: [row] });
    expect(results).toMatchObject([{ outcome: Outcome.SUSPENDED, changedFields: ["name", "mapping", "properties"] }]);
    const { userGroup: still } = await admin.lookupUserGroup({ environment, userGroupId });
    expect(still).toMatchObject({ name: "Imported", suspension: given });
    const copy = { ...row, providedId: newId(), token: undefined, suspension: exported?.suspension };
    const copied = await admin.importUserGroups({ ...request, userGroups: [copy] });
    expect(copied.results).toMatchObject([{ outcome: Outcome.CREATED }]);
    const { userGroup: seen } = await admin.lookupUserGroup({ environment, userGroupId: copy.providedId });
    expect(seen?.suspension).toEqual(exported?.suspension);
    // The service derives the reason `EXPIRED` from the expiry time. So an import ignores a suspension with this
    // reason.
    const derived = { ...copy, providedId: newId(), suspension: { reason: "EXPIRED" } };
    await admin.importUserGroups({ ...request, userGroups: [derived] });
    const { userGroup: active } = await admin.lookupUserGroup({ environment, userGroupId: derived.providedId });
    expect(active?.suspension).toBeUndefined();
  });
});

describeWithRedis("several workers", () => {
  it("all workers reject a suspended group immediately, and accept a resumed group immediately", async () => {
    const redis = await newRedis();
    const env = { ...ADMIN_ENV, PUBLIC_URL: "https://groups.example.com" };
    const one = await newServer({ redisUrl: redis.url, env });
    const other = await newServer({ redisUrl: redis.url, env, like: one });
    const { userGroupId, userGroup, session } = await newGroup(one);
    const named = { environment: customerOf(one), userGroupId };
    for (let i = 0; i < 10; i++) {
      const resolve = (server: TestServer, token: string) => grpcClients(server).viewers.resolveViewer({ token });
      for (const token of [userGroup.token, session]) {
        expect(await resolve(other, token)).toMatchObject({ providedId: userGroupId });
      }
      await adminOf((i % 2 === 0 ? one : other).url).suspendUserGroup({ ...named, reason: String(i) });
      for (const server of [one, other])
        for (const token of [userGroup.token, session])
          expect(await failureOf(resolve(server, token))).toEqual(SUSPENDED);
      await adminOf(one.url).resumeUserGroup(named);
    }
  });
});
