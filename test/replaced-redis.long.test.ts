import { renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { http1 } from "@user-group-service/testing/http";
import { repeat } from "@user-group-service/testing/repeat";
import { RUNTIMES } from "@user-group-service/testing/runtime";
import { waitFor } from "@user-group-service/testing/wait";
import { expect, it } from "vitest";
import { newUserGroupToken } from "../src/domain/token.ts";
import { TOKEN_KEYS_KEY } from "../src/store/keys.ts";
import { ADMIN_ENV, adminOf, bearer, customerOf, issueToken } from "./support/admin.ts";
import { describeWithRedis, newCluster, newOperator, newRedis, newSentinels, newServer } from "./support/opened.ts";
import { waitUntilReady } from "./support/operations.ts";
import { ask, DURABLE } from "./support/redis.ts";
import { failureOf, grpcClients, succeeds } from "./support/rpc.ts";
import type { TestServer } from "./support/server.ts";

const TIME_KEY = "ug:{ug:format}:time";

const says = (server: TestServer, text: string) => server.log().filter(({ msg }) => msg.startsWith(text));
const REPLACED = "Redis does not contain the expected data";

/** Waits until the metrics of a server report that the server uses (1) or refuses (0) the data in Redis. */
const isKnown = async (server: TestServer, value: 0 | 1) => {
  await waitFor(`ugs_redis_data_known is ${value}`, async () => {
    const page = (await http1(server.url, "/metrics")).body.toString();
    return page.includes(`\nugs_redis_data_known ${value}\n`);
  });
};

/** Expects that a server refuses all changes, and all reads of missing data. */
async function refuses(server: TestServer, { token }: { readonly token: string }) {
  const { groups, viewers } = grpcClients(server);
  const admin = adminOf(server.url);
  const environment = customerOf(server);
  const unavailable = { code: "Unavailable", reason: "STORE_UNAVAILABLE" };
  for (const call of [
    () => groups.getUserGroup({ userGroupId: "a" }),
    () => groups.getUserGroup({ userGroupId: "new" }),
    () => groups.updateUserGroup({ userGroupId: "a", name: "changed" }),
    () => groups.rotateUserGroupToken({ group: { case: "userGroupId", value: "a" } }),
    () => viewers.resolveViewer({ token }),
    () => admin.lookupUserGroup({ environment, userGroupId: "a" }),
    () => admin.createEnvironment({ environment: { name: "another" } }),
  ]) {
    expect(await failureOf(call())).toMatchObject(unavailable);
  }
  const { name } = environment;
  const published = await http1(server.url, `/e/${name}/Customer/.well-known/jwks.json`);
  expect(published.json()).toMatchObject({ error: { reason: "STORE_UNAVAILABLE" } });
}

function callsOn(server: TestServer) {
  const { groups } = grpcClients(server);
  const tokens = new Set<string>();
  const run = async () => {
    const answer = await groups.getUserGroup({ userGroupId: "steady" }).catch(() => undefined);
    if (answer?.userGroup) tokens.add(answer.userGroup.token);
  };
  const calls = repeat(Array.from({ length: 4 }, () => run));
  return { tokens, end: () => calls.end() };
}

describeWithRedis.each(RUNTIMES)("a replaced Redis of a running service on %s", (runtime) => {
  const start = (redisUrl: string, like?: TestServer) =>
    newServer({ runtime, redisUrl, env: { ...ADMIN_ENV, REDIS_TIMEOUT: "2s" }, ...(like && { like }) });
  /** Starts two servers. If `operator` is given, waits until each server has recorded its key and the time in Redis. */
  const newPair = async (redisUrl: string, operator?: ReturnType<typeof newOperator>) => {
    const startWhole = async (like?: TestServer) => {
      const began = Date.now();
      const server = await start(redisUrl, like);
      await waitFor("the server has recorded its key and then the time", async () => {
        if (!operator) return true;
        const [uses, time] = await Promise.all([operator.hvals(TOKEN_KEYS_KEY), operator.get(TIME_KEY)]);
        const recorded = Math.max(...uses.map((text) => Number(text.split(" ")[1])));
        return recorded >= began && Number(time) >= recorded;
      });
      return server;
    };
    const first = await startWhole();
    const { userGroup } = await grpcClients(first).groups.getUserGroup({ userGroupId: "a" });
    return { first, second: await startWhole(first), token: userGroup?.token ?? "" };
  };

  it("an emptied Redis is refused until an operator accepts its data", async () => {
    const redis = await newRedis();
    const operator = newOperator(redis);
    const { first, second, token } = await newPair(redis.url, operator);
    const issued = (await issueToken(first, "manage")).token;
    const calls = callsOn(first);
    await waitFor("calls succeed", () => calls.tokens.size === 1);
    await operator.flushall();
    await isKnown(first, 0);
    await isKnown(second, 0);
    await calls.end();
    // While the servers refused the data, they did not create the group again.
    expect(calls.tokens.size).toBe(1);
    expect(await operator.keys("*")).toEqual([]);
    for (const server of [first, second]) {
      await refuses(server, { token });
      await waitUntilReady(server);
      await waitUntilReady(server, false, "changes");
      expect(says(server, REPLACED)).toMatchObject([{ level: "error", cause: expect.stringMatching(/gone/) }]);
    }
    expect(await failureOf(adminOf(first.url).listEnvironments({}))).toMatchObject({ reason: "STORE_UNAVAILABLE" });
    // The API token is missing in Redis, but the service must not treat it as revoked.
    expect((await http1(first.url, "/api/user?user_group_id=a", { headers: bearer(issued) })).status).toBe(503);
    // A new process uses the data in Redis, but the running processes continue to refuse the data.
    const third = await start(redis.url);
    await refuses(first, { token });
    await adminOf(second.url).acceptStoreData({});
    for (const server of [first, second, third]) await isKnown(server, 1);
    for (const server of [first, second]) {
      await waitUntilReady(server, true, "changes");
      expect(await failureOf(grpcClients(server).viewers.resolveViewer({ token }))).toMatchObject({ code: "NotFound" });
    }
    const made = await grpcClients(first).groups.getUserGroup({ userGroupId: "a" });
    expect(made.newUserGroup).toBe(true);
    expect((await grpcClients(second).groups.getUserGroup({ userGroupId: "a" })).userGroup?.token).toBe(
      made.userGroup?.token,
    );
  });

  it("a Redis that restarts empty is refused, and used again when its data is restored", async () => {
    const redis = await newRedis(DURABLE);
    const { first, token } = await newPair(redis.url);
    await redis.kill();
    const hidden = join(redis.folder, "hidden");
    renameSync(join(redis.folder, "appendonlydir"), hidden);
    const calls = callsOn(first);
    await redis.restart();
    await isKnown(first, 0);
    await calls.end();
    expect(await newOperator(redis).keys("*")).toEqual([]);
    await refuses(first, { token });
    await redis.kill();
    rmSync(join(redis.folder, "appendonlydir"), { recursive: true });
    renameSync(hidden, join(redis.folder, "appendonlydir"));
    await redis.restart();
    await isKnown(first, 1);
    await waitUntilReady(first, true, "changes");
    expect((await grpcClients(first).groups.getUserGroup({ userGroupId: "a" })).userGroup?.token).toBe(token);
  });

  it("the Redis of another deployment is refused", async () => {
    const [redis, other] = [await newRedis(), await newRedis(["--appendonly", "yes"])];
    const { first, token } = await newPair(redis.url);
    // Restore a backup of another deployment that has the same TOKEN_KEYS.
    await start(other.url);
    await redis.kill();
    await ask(other, "SAVE");
    await redis.restart(["--appendonly", "no", "--dir", other.folder, "--dbfilename", "dump.rdb"]);
    await isKnown(first, 0);
    await refuses(first, { token });
    expect(says(first, REPLACED)[0]).toMatchObject({ cause: expect.stringMatching(/another Redis/) });
  });

  it("a Redis with older data is refused", async () => {
    const redis = await newRedis(["--dbfilename", "dump.rdb"]);
    const operator = newOperator(redis);
    const { first } = await newPair(redis.url);
    const { groups } = grpcClients(first);
    await operator.save();
    await groups.getUserGroup({ userGroupId: "later" });
    await operator.set(TIME_KEY, String(Date.now() + 3_600_000));
    // This lookup finds no group, so the server reads the time from Redis.
    await failureOf(grpcClients(first).viewers.resolveViewer({ token: newUserGroupToken() }));
    await redis.kill();
    await redis.restart();
    await isKnown(first, 0);
    // Existing groups can still be read.
    expect((await groups.getUserGroup({ userGroupId: "a" })).newUserGroup).toBe(false);
    expect(await failureOf(groups.getUserGroup({ userGroupId: "later" }))).toMatchObject({
      reason: "STORE_UNAVAILABLE",
    });
    expect(says(first, REPLACED)[0]).toMatchObject({ cause: expect.stringMatching(/has lost the last 3[56]\d\d s/) });
    await adminOf(first.url).acceptStoreData({});
    expect((await groups.getUserGroup({ userGroupId: "later" })).newUserGroup).toBe(true);
  });

  it("the new master after a failover is used without an acceptance by an operator", async () => {
    const sentinels = await newSentinels({ downAfterMs: 1000 });
    const { first } = await newPair(sentinels.url);
    const { groups } = grpcClients(first);
    const before = await sentinels.master();
    await sentinels.failOver();
    await waitFor("another node is the master", async () => (await sentinels.master()) !== before);
    await sentinels.whole();
    await waitFor("changes succeed", () => succeeds(groups.updateUserGroup({ userGroupId: "a", name: "after" })));
    expect(says(first, REPLACED)).toEqual([]);
    await isKnown(first, 1);
    const master = newOperator(await sentinels.master());
    await master.flushall();
    await isKnown(first, 0);
    expect(await failureOf(groups.getUserGroup({ userGroupId: "a" }))).toMatchObject({ reason: "STORE_UNAVAILABLE" });
    await adminOf(first.url).acceptStoreData({});
    expect((await groups.getUserGroup({ userGroupId: "a" })).newUserGroup).toBe(true);
  });

  it("a Cluster is refused after one shard was emptied", async () => {
    const cluster = await newCluster();
    const { first } = await newPair(cluster.url);
    const masterOf = await cluster.masters();
    const format = masterOf("ug:format");
    const other = Array.from({ length: 100 }, (_, i) => masterOf(`${i}`)).find((one) => one !== format);
    await ask(other as { port: number }, "FLUSHALL");
    await isKnown(first, 0);
    const { groups } = grpcClients(first);
    for (let i = 0; i < 20; i++)
      expect(await failureOf(groups.getUserGroup({ userGroupId: `new ${i}` }))).toMatchObject({
        reason: "STORE_UNAVAILABLE",
      });
    await adminOf(first.url).acceptStoreData({});
    await isKnown(first, 1);
    expect((await groups.getUserGroup({ userGroupId: "new 1" })).newUserGroup).toBe(true);
  });
});
