import { RUNTIMES } from "@user-group-service/testing/runtime";
import { waitFor } from "@user-group-service/testing/wait";
import { expect, it } from "vitest";
import { Role } from "../gen/usergroup/admin/v1/api_token_pb.ts";
import { candidateOf } from "../src/store/environments.ts";
import { environmentKey } from "../src/store/keys.ts";
import { ADMIN_ENV, adminOf } from "./support/admin.ts";
import { describeWithRedis, newCluster, newServer } from "./support/opened.ts";
import { waitUntilReady } from "./support/operations.ts";
import { ask, type TestRedis } from "./support/redis.ts";
import { failureOf, grpcClients, succeeds } from "./support/rpc.ts";
import type { TestServer } from "./support/server.ts";

/** Creates a Cluster without replicas, so that failed shards stay unavailable. */
async function newShards(): Promise<{
  url: string;
  masters: readonly TestRedis[];
  env: (i: number) => string;
}> {
  const cluster = await newCluster({ nodeTimeoutMs: 600_000, argsOf: () => ["--cluster-require-full-coverage", "no"] });
  const masterOf = await cluster.masters();
  const format = masterOf("ug:format");
  const others = [...new Set(Array.from({ length: 100 }, (_, i) => masterOf(`${i}`)))].filter((one) => one !== format);
  // The first master stores `ug:format`, the number of the data layout.
  const masters = [format, ...others];
  const env = (i: number) => {
    for (let n = 0; ; n++) if (masterOf(environmentKey(candidateOf(`e${n}/`, 0))) === masters[i]) return `e${n}`;
  };
  const url = `redis-cluster://${masters.map(({ port }) => `127.0.0.1:${port}`)}`;
  return { url, masters, env };
}

const TOKENS = Array.from({ length: 3 }, (_, i) => `api-token-of-environment-${i}`);

async function answered(server: TestServer, token: string): Promise<readonly boolean[]> {
  const { groups } = grpcClients(server, token);
  const ids = Array.from({ length: 60 }, (_, i) => `group ${i}`);
  return Promise.all(ids.map((userGroupId) => succeeds(groups.getUserGroup({ userGroupId }))));
}

describeWithRedis.each(RUNTIMES)("a server on %s that starts while shards of a Cluster are unavailable", (runtime) => {
  it("serves the available slots, logs the unavailable shards, and serves all slots when these shards are available again", async () => {
    const { url, masters, env } = await newShards();
    const API_TOKENS = TOKENS.map((token, i) => `${env(i)}=${token}`).join();
    const settings = { ...ADMIN_ENV, REDIS_TIMEOUT: "1s", API_TOKENS };
    const start = () => newServer({ runtime, redisUrl: url, env: settings });
    const first = await start();
    for (const token of TOKENS) expect(await answered(first, token)).not.toContain(false);
    const issue = async (name: string): Promise<string> => {
      const values = { environment: { name }, displayName: "issued", role: Role.MANAGE };
      return (await adminOf(first.url).createApiToken(values)).token;
    };
    const [issued, issuedAway] = [await issue(env(2)), await issue(env(0))];
    await first.stop();
    const [hung, killed] = masters as [TestRedis, TestRedis];
    hung.freeze();
    await killed.kill();
    // REDIS_URL begins with the addresses of the unavailable shards.
    const server = await start();
    const warned = server.log().find(({ msg }) => msg.startsWith("started without some shards"));
    expect([...((warned?.["nodes"] ?? []) as string[])].sort()).toEqual(
      [hung, killed].map(({ port }) => `127.0.0.1:${port}`).sort(),
    );
    await waitUntilReady(server);
    // All data of an environment, including its issued API tokens, is on one shard.
    for (const token of [TOKENS[2] ?? "", issued]) expect(await answered(server, token)).not.toContain(false);
    for (const token of [TOKENS[0] ?? "", issuedAway]) {
      const { groups } = grpcClients(server, token);
      expect(await failureOf(groups.getUserGroup({ userGroupId: "a" }))).toMatchObject({ reason: "STORE_UNAVAILABLE" });
    }
    hung.thaw();
    await killed.restart();
    for (const token of TOKENS)
      await waitFor("all groups are served", async () => !(await answered(server, token)).includes(false));
    await waitFor("the data of the other shards is checked", () =>
      server.log().some(({ msg }) => msg === "the check of the data in Redis succeeded"),
    );
  });
});

describeWithRedis("a server that starts while a shard is unavailable", () => {
  it("exits if the shard becomes available with an unsupported data layout", async () => {
    const { url, masters, env } = await newShards();
    const settings = { REDIS_TIMEOUT: "1s", API_TOKENS: `${env(1)}=${TOKENS[1]}` };
    const [format] = masters as [TestRedis];
    const start = (delay: string) => newServer({ redisUrl: url, env: { ...settings, SHUTDOWN_DELAY: delay } });
    await (await start("0s")).stop();
    await ask(format, "SET", "ug:format", "4");
    format.freeze();
    const server = await start("1h");
    expect(await answered(server, TOKENS[1] ?? "")).not.toContain(false);
    format.thaw();
    expect(await server.exited()).toBe(1);
    expect(server.output()).toMatch(/cannot use Redis: .*layout 4/);
  });
});
