import { type Timestamp, timestampDate, timestampFromMs } from "@bufbuild/protobuf/wkt";
import { waitFor } from "@user-group-service/testing/wait";
import { expect, it } from "vitest";
import { Role } from "../gen/usergroup/admin/v1/api_token_pb.ts";
import { ApiEnvironmentTag } from "../gen/usergroup/v1/user_group_pb.ts";
import {
  ADMIN_CLIENTS,
  adminOf,
  allPages,
  customerOf,
  endSoon,
  issueToken,
  newName,
  suiteAdmins,
} from "./support/admin.ts";
import { describeClients, describeServers } from "./support/matrix.ts";
import { failureOf, grpcClients } from "./support/rpc.ts";

const millis = (time: Timestamp | undefined) => time && timestampDate(time).getTime();

describeClients(ADMIN_CLIENTS, (server, options) => {
  const admin = suiteAdmins(server, options);

  it("an API token works only in the environment for which it was created, and only until its revocation", async () => {
    const name = newName();
    const environment = { name, tag: ApiEnvironmentTag.TESTING };
    const before = Date.now();
    const { environment: made } = await admin().createEnvironment({ environment });
    expect(made).toMatchObject(environment);
    expect(Math.abs((millis(made?.createTime) ?? 0) - before)).toBeLessThan(60_000);
    const again = await failureOf(admin().createEnvironment({ environment }));
    expect(again).toEqual({ code: "AlreadyExists", reason: "ENVIRONMENT_EXISTS" });

    const expireTime = timestampFromMs(Date.now() + 3_600_000);
    const values = { displayName: "back end é", role: Role.MANAGE, expireTime };
    const { apiToken, token } = await admin().createApiToken({ environment, ...values });
    expect(token).toMatch(/^ugk_[0-9A-Za-z]{40}$/);
    expect(apiToken).toMatchObject({ displayName: "back end é", role: Role.MANAGE, creator: "root" });
    expect(millis(apiToken?.expireTime)).toBe(millis(expireTime));
    expect(Math.abs((millis(apiToken?.createTime) ?? 0) - before)).toBeLessThan(60_000);
    const { groups } = grpcClients(server, token);
    const { userGroup } = await groups.getUserGroup({ userGroupId: "a" });
    expect(userGroup?.apiEnvironmentTag).toBe(ApiEnvironmentTag.TESTING);
    expect((await grpcClients(server).groups.getUserGroup({ userGroupId: "a" })).userGroup?.token).not.toBe(
      userGroup?.token,
    );

    const { apiTokens, nextPageToken } = await admin().listApiTokens({ environment });
    expect(nextPageToken).toBe("");
    expect(apiTokens.map(({ id }) => id)).toEqual([apiToken?.id]);
    await admin().revokeApiToken({ environment, apiTokenId: apiToken?.id ?? "" });
    const dead = await failureOf(groups.getUserGroup({ userGroupId: "a" }));
    expect(dead).toEqual({ code: "Unauthenticated", reason: "API_TOKEN_UNKNOWN" });
    expect((await admin().listApiTokens({ environment })).apiTokens).toEqual([]);
    const twice = await failureOf(admin().revokeApiToken({ environment, apiTokenId: apiToken?.id ?? "" }));
    expect(twice).toEqual({ code: "NotFound", reason: "API_TOKEN_NOT_FOUND" });
  });

  it("an API token of role admin can manage the API tokens of its environment with requests that name no environment", async () => {
    const { token, id } = await issueToken(server, "admin");
    const own = admin(token);
    for (const environment of [undefined, customerOf(server)]) {
      const values = { displayName: "made by an admin", role: Role.READ };
      const made = await own.createApiToken({ ...values, ...(environment && { environment }) });
      expect(made.apiToken?.creator).toBe(id);
      const listed = await own.listApiTokens({ ...(environment && { environment }), pageSize: 1000 });
      expect(listed.apiTokens.map((one) => one.id)).toContain(made.apiToken?.id);
      await own.revokeApiToken({ ...(environment && { environment }), apiTokenId: made.apiToken?.id ?? "" });
      const { groups } = grpcClients(server, made.token);
      expect((await failureOf(groups.getUserGroup({ userGroupId: "a" }))).code).toBe("Unauthenticated");
    }
    const other = { name: server.environment, tag: ApiEnvironmentTag.TESTING };
    const foreign = { code: "PermissionDenied", reason: "OTHER_ENVIRONMENT" };
    for (const environment of [other, { name: server.environment }, { name: "none" }]) {
      const values = { environment, displayName: "x", role: Role.READ };
      expect(await failureOf(own.createApiToken(values))).toEqual(foreign);
      expect(await failureOf(own.listApiTokens({ environment }))).toEqual(foreign);
      expect(await failureOf(own.revokeApiToken({ environment, apiTokenId: id }))).toEqual(foreign);
    }
    await own.revokeApiToken({ apiTokenId: id });
    expect((await failureOf(own.listApiTokens({}))).code).toBe("Unauthenticated");
  });

  it("a non-empty environment can be deleted only with force, and can be created again after the deletion", async () => {
    const environment = { name: newName(), tag: ApiEnvironmentTag.CUSTOMER };
    const missing = { code: "NotFound", reason: "ENVIRONMENT_NOT_FOUND" };
    expect(await failureOf(admin().getEnvironment({ environment }))).toEqual(missing);
    expect(await failureOf(admin().deleteEnvironment({ environment }))).toEqual(missing);
    const { environment: made } = await admin().createEnvironment({ environment });
    const { token } = await admin().createApiToken({ environment, displayName: "x", role: Role.ADMIN });
    const own = grpcClients(server, token);
    for (const userGroupId of ["a", "b"]) await own.groups.getUserGroup({ userGroupId });
    const reported = { environment: made, userGroupCount: 2n, apiTokenCount: 1 };
    expect(await admin().getEnvironment({ environment })).toMatchObject(reported);
    expect(await admin(token).getEnvironment({})).toMatchObject(reported);
    const other = { code: "PermissionDenied", reason: "OTHER_ENVIRONMENT" };
    expect(await failureOf(admin(token).getEnvironment({ environment: customerOf(server) }))).toEqual(other);
    const notEmpty = { code: "FailedPrecondition", reason: "ENVIRONMENT_NOT_EMPTY" };
    expect(await failureOf(admin().deleteEnvironment({ environment }))).toEqual(notEmpty);
    expect((await own.groups.getUserGroup({ userGroupId: "c" })).newUserGroup).toBe(true);

    const done = { done: true, remainingUserGroups: 0n };
    expect(await admin().deleteEnvironment({ environment, force: true })).toMatchObject(done);
    const unknown = { code: "Unauthenticated", reason: "API_TOKEN_UNKNOWN" };
    expect(await failureOf(own.groups.getUserGroup({ userGroupId: "a" }))).toEqual(unknown);
    for (const call of [
      () => admin().getEnvironment({ environment }),
      () => admin().deleteEnvironment({ environment, force: true }),
      () => admin().listUserGroups({ environment }),
      () => admin().createApiToken({ environment, displayName: "x", role: Role.READ }),
      () => admin().importUserGroups({ environment, userGroups: [{ providedId: "a" }] }),
    ]) {
      expect(await failureOf(call())).toEqual(missing);
    }
    const { auditEvents } = await admin().listAuditEvents({ environment, method: "DeleteEnvironment" });
    expect(auditEvents).toMatchObject([
      { actorId: "root", changedFields: [] },
      { actorId: "root", changedFields: ["delete_time"] },
    ]);

    await admin().createEnvironment({ environment });
    const next = await admin().createApiToken({ environment, displayName: "next", role: Role.ADMIN });
    // A token of the new environment lists only events of the new environment. ADMIN_TOKEN also lists the events of the
    // deleted environment with the same name.
    const ofNext = await admin(next.token).listAuditEvents({});
    expect(ofNext.auditEvents.map(({ method }) => method)).toEqual(["CreateApiToken", "CreateEnvironment"]);
    const all = await admin().listAuditEvents({ environment });
    expect(all.auditEvents.slice(0, 3).map(({ method }) => method)).toEqual([
      ...["CreateApiToken", "CreateEnvironment", "DeleteEnvironment"],
    ]);
    expect(all.auditEvents.length).toBeGreaterThan(6);
    const none = { userGroupCount: 0n, apiTokenCount: 1 };
    expect(await admin().getEnvironment({ environment })).toMatchObject(none);
    expect(await admin().deleteEnvironment({ environment })).toMatchObject(done);
  });
});

describeServers((server) => {
  it("a request with ADMIN_TOKEN must name an existing environment", async () => {
    const admin = adminOf(server.url);
    const values = { displayName: "x", role: Role.READ };
    const unnamed = { code: "InvalidArgument", reason: "VALIDATION_FAILED" };
    expect(await failureOf(admin.createApiToken(values))).toEqual(unnamed);
    expect(await failureOf(admin.listApiTokens({}))).toEqual(unnamed);
    expect(await failureOf(admin.revokeApiToken({ apiTokenId: "a" }))).toEqual(unnamed);
    const environment = { name: newName() };
    const missing = { code: "NotFound", reason: "ENVIRONMENT_NOT_FOUND" };
    expect(await failureOf(admin.createApiToken({ environment, ...values }))).toEqual(missing);
    expect(await failureOf(admin.listApiTokens({ environment }))).toEqual(missing);
    expect(await failureOf(admin.revokeApiToken({ environment, apiTokenId: "a" }))).toEqual(missing);
  });

  it("ListEnvironments returns every environment once, including the environments of API_TOKENS", async () => {
    const admin = adminOf(server.url);
    const names = Array.from({ length: 5 }, newName);
    for (const name of names) await admin.createEnvironment({ environment: { name } });
    const listed = await allPages(
      (pageToken) => admin.listEnvironments({ pageSize: 2, pageToken }),
      ({ environments }) => environments.map(({ name, tag }) => `${name}/${tag}`),
    );
    const expected = [
      ...names.map((name) => `${name}/${ApiEnvironmentTag.UNSPECIFIED}`),
      ...Object.values(ApiEnvironmentTag).map((tag) => `${server.environment}/${tag}`),
    ];
    expect(listed.filter((path) => expected.includes(path)).sort()).toEqual(expected.sort());
  });

  it("an API token is rejected after its expiry time", async () => {
    const { token, id } = await issueToken(server, "manage");
    const { groups } = grpcClients(server, token);
    await groups.getUserGroup({ userGroupId: "a" });
    const expireTime = await endSoon(server, id);
    const outcome = await waitFor("the token has expired", () =>
      groups.getUserGroup({ userGroupId: "a" }).then(
        () => undefined,
        (error: Error) => error.message,
      ),
    );
    expect(outcome).toContain("expired");
    expect(Date.now()).toBeGreaterThanOrEqual(millis(expireTime) ?? 0);
  });
});
