import { Code, ConnectError } from "@connectrpc/connect";
import { expect, it } from "vitest";
import { Role } from "../gen/usergroup/admin/v1/api_token_pb.ts";
import { ADMIN_ENV, adminOf, customerOf, issueToken } from "./support/admin.ts";
import { describeWithRedis, newOperator, newRedis, newServer } from "./support/opened.ts";
import { failureOf, grpcClients } from "./support/rpc.ts";

describeWithRedis("while the memory of Redis is full", () => {
  it("an API token can be revoked, and the API tokens issued with the revoked token stay valid", async () => {
    const redis = await newRedis();
    const server = await newServer({ redisUrl: redis.url, env: ADMIN_ENV });
    const root = adminOf(server.url);
    const environment = customerOf(server);
    const leaked = await issueToken(server, "admin");
    const values = { displayName: "made by it", role: Role.MANAGE };
    const { token } = await adminOf(server.url, leaked.token).createApiToken(values);
    await newOperator(redis).config("SET", "maxmemory", "1mb");
    const full = root.createApiToken({ environment, ...values }).catch((error: unknown) => ConnectError.from(error));
    expect(await full).toMatchObject({ code: Code.Unavailable });
    await root.revokeApiToken({ environment, apiTokenId: leaked.id });
    expect(await failureOf(adminOf(server.url, leaked.token).listApiTokens({}))).toMatchObject({
      reason: "API_TOKEN_UNKNOWN",
    });
    const { auditEvents } = await root.listAuditEvents({ environment, method: "RevokeApiToken" });
    expect(auditEvents.map(({ apiTokenId }) => apiTokenId)).toEqual([leaked.id]);
    expect((await failureOf(grpcClients(server, token).groups.getUserGroup({ userGroupId: "a" }))).code).toBe(
      "Unavailable",
    );
  });

  it("user group tokens can be revoked, signing keys can be rotated, and an environment can be deleted", async () => {
    const redis = await newRedis();
    const server = await newServer({ redisUrl: redis.url, env: ADMIN_ENV });
    const admin = adminOf(server.url, (await issueToken(server, "admin")).token);
    const { groups, viewers } = grpcClients(server);
    const create = async (userGroupId: string) => (await groups.getUserGroup({ userGroupId })).userGroup?.token ?? "";
    const [leaked, other] = [await create("leaked"), await create("other")];
    const group = { case: "currentToken", value: leaked } as const;
    const rotated = await groups.rotateUserGroupToken({ group, previousTokenTtl: { seconds: 3600n } });
    await newOperator(redis).config("SET", "maxmemory", "1mb");

    const full = await groups.getUserGroup({ userGroupId: "new" }).catch((error: unknown) => ConnectError.from(error));
    expect(full).toMatchObject({ code: Code.Unavailable });
    const requests = [
      { userGroupId: "leaked" },
      { userGroupId: "other", requestId: "r1" },
      { userGroupId: "other", requestId: "r1" },
    ];
    for (const request of requests) await admin.revokeUserGroupTokens(request);
    for (const token of [leaked, rotated.userGroup?.token ?? "", other]) {
      expect(await failureOf(viewers.resolveViewer({ token }))).toMatchObject({ reason: "TOKEN_NOT_FOUND" });
    }
    for (const userGroupId of ["leaked", "other"]) {
      const { userGroup } = await groups.getUserGroup({ userGroupId });
      expect((await viewers.resolveViewer({ token: userGroup?.token ?? "" })).providedId).toBe(userGroupId);
    }
    const { auditEvents } = await admin.listAuditEvents({ method: "RevokeUserGroupTokens" });
    expect(auditEvents.map(({ userGroupId }) => userGroupId).sort()).toEqual(["leaked", "other"]);
    const { signingKeys } = await adminOf(server.url).rotateSigningKey({
      environment: customerOf(server),
      endSessions: true,
    });
    expect(signingKeys.length).toBeGreaterThan(0);
    const deleted = await adminOf(server.url).deleteEnvironment({ environment: customerOf(server), force: true });
    expect(deleted).toMatchObject({ done: true });
  });
});
