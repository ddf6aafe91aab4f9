import { timestampDate } from "@bufbuild/protobuf/wkt";
import { waitFor } from "@user-group-service/testing/wait";
import { expect, it } from "vitest";
import { ADMIN_ENV, ADMIN_TOKEN, adminOf, customerOf, newName } from "./support/admin.ts";
import { describeWithRedis, newRedis, newServer, redisUrl } from "./support/opened.ts";
import { documentedRights, withRights } from "./support/rights.ts";
import { failureOf, grpcClients } from "./support/rpc.ts";

describeWithRedis("credentials in settings", () => {
  const [older, newer] = [`older-${crypto.randomUUID()}`, `newer-${crypto.randomUUID()}`];

  it("two values in ADMIN_TOKEN allow a change of the token without an interruption", async () => {
    const server = await newServer({ redisUrl, env: { ADMIN_TOKEN: `${older},${newer}` } });
    for (const token of [older, newer]) await adminOf(server.url, token).listEnvironments({});
    for (const none of [`${older},${newer}`, `${older},`]) {
      expect((await failureOf(adminOf(server.url, none).listEnvironments({}))).code).toBe("Unauthenticated");
    }
    expect(server.output()).not.toContain(older);
    expect(server.output()).not.toContain(newer);
  });

  it("API tokens in settings keep their ids in the audit trail if their order changes", async () => {
    const environment = { name: newName() };
    const entries = [`${environment.name}=${older}`, `named@${environment.name}=${newer}`];
    const actors: (readonly string[])[] = [];
    for (const order of [entries, entries.toReversed()]) {
      const server = await newServer({ redisUrl, env: { ADMIN_TOKEN, API_TOKENS: order.join(",") } });
      for (const token of [older, newer]) {
        await grpcClients(server, token).groups.getUserGroup({ userGroupId: crypto.randomUUID() });
      }
      const { auditEvents } = await adminOf(server.url).listAuditEvents({ environment, method: "GetUserGroup" });
      actors.push(auditEvents.slice(0, 2).map(({ actorId }) => actorId));
    }
    expect(actors[0]).toEqual(["static-named", expect.stringMatching(/^static-[0-9a-f]{10}$/)]);
    expect(actors[1]).toEqual(actors[0]);
  });
});

describeWithRedis("API tokens in settings and the deletion of their environment", () => {
  it("API tokens of a deleted environment are rejected and do not recreate it, but are valid again after CreateEnvironment", async () => {
    const redis = await newRedis();
    const server = await newServer({ redisUrl: redis.url, env: ADMIN_ENV });
    const root = adminOf(server.url);
    const environment = customerOf(server);
    const { groups } = grpcClients(server);
    await groups.getUserGroup({ userGroupId: "a" });
    const ended = { code: "NotFound", reason: "ENVIRONMENT_NOT_FOUND" };
    expect(await root.deleteEnvironment({ environment, force: true })).toMatchObject({ done: true });
    expect(await failureOf(groups.updateUserGroup({ userGroupId: "a", name: "N" }))).toEqual(ended);
    expect(await failureOf(groups.getUserGroup({ userGroupId: "a" }))).toEqual(ended);
    const reported = "an environment of API_TOKENS was deleted";
    await waitFor("the server has received the deletion", () =>
      server.log().some(({ msg }) => msg.startsWith(reported)),
    );
    expect(await failureOf(groups.updateUserGroup({ userGroupId: "a", name: "N" }))).toEqual(ended);

    const other = await newServer({ redisUrl: redis.url, env: ADMIN_ENV, like: server });
    expect(other.log().filter(({ msg }) => msg.startsWith(reported))).toMatchObject([
      { level: "error", environment: `${server.environment}/Customer` },
    ]);
    const others = grpcClients(other);
    expect(await failureOf(others.groups.getUserGroup({ userGroupId: "a" }))).toEqual(ended);
    expect(await failureOf(root.getEnvironment({ environment }))).toEqual(ended);

    await root.createEnvironment({ environment });
    for (const each of [groups, others.groups]) {
      const { userGroup } = await each.getUserGroup({ userGroupId: "b" });
      expect(userGroup?.providedId).toBe("b");
    }
    expect(await root.getEnvironment({ environment })).toMatchObject({ userGroupCount: 1n });
  });

  it("API tokens are valid for a recreated environment immediately, even on workers without a message about the deletion", async () => {
    const redis = await newRedis();
    const rights = documentedRights().filter((right) => right !== "+subscribe");
    const env = { ...ADMIN_ENV, API_TOKEN_CACHE: "1m" };
    const server = await newServer({ redisUrl: await withRights(redis, rights), env });
    const others = await Promise.all(
      Array.from({ length: 3 }, async () =>
        newServer({ redisUrl: await withRights(redis, rights), env, like: server }),
      ),
    );
    const workers = others.map((other) => grpcClients(other));
    const root = adminOf(server.url);
    const environment = customerOf(server);
    const [first] = workers;
    const before = await first?.groups.getUserGroup({ userGroupId: "a" });
    for (const { groups } of workers) await groups.getUserGroup({ userGroupId: "a" });
    await root.deleteEnvironment({ environment, force: true });
    await root.createEnvironment({ environment });
    const { userGroup, newUserGroup } = (await grpcClients(server).groups.getUserGroup({ userGroupId: "a" })) ?? {};
    expect([newUserGroup, userGroup?.teamId === before?.userGroup?.teamId]).toEqual([true, false]);
    const [one, two, three] = workers as [(typeof workers)[0], (typeof workers)[0], (typeof workers)[0]];
    expect((await one.groups.getUserGroup({ userGroupId: "a" })).userGroup?.token).toBe(userGroup?.token);
    expect((await two.viewers.resolveViewer({ token: userGroup?.token ?? "" })).teamId).toBe(userGroup?.teamId);
    const { userGroup: updated } = await three.groups.updateUserGroup({ userGroupId: "a", name: "N" });
    expect([updated?.teamId, updated?.name]).toEqual([userGroup?.teamId, "N"]);
  });
});

it("a rotation without a grace period in the request uses ROTATION_GRACE", async () => {
  const { groups, viewers } = grpcClients(await newServer({ env: { ROTATION_GRACE: "1h" } }));
  const token = (await groups.getUserGroup({ userGroupId: "a" })).userGroup?.token ?? "";
  const group = { case: "userGroupId", value: "a" } as const;
  const second = (await groups.rotateUserGroupToken({ group })).userGroup?.token ?? "";
  const { tokenExpireTime } = await viewers.resolveViewer({ token });
  const expireTime = tokenExpireTime ? timestampDate(tokenExpireTime).getTime() : 0;
  expect(Math.abs(expireTime - Date.now() - 3_600_000)).toBeLessThan(60_000);
  await groups.rotateUserGroupToken({ group, previousTokenTtl: { seconds: 0n } });
  for (const ended of [token, second]) {
    expect((await failureOf(viewers.resolveViewer({ token: ended }))).reason).toBe("TOKEN_NOT_FOUND");
  }
});
