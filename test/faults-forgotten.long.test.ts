import { waitFor } from "@user-group-service/testing/wait";
import { expect, it } from "vitest";
import { candidateOf } from "../src/store/environments.ts";
import { FIELD } from "../src/store/groups/group-record.ts";
import { ENVIRONMENTS_KEY, environmentKey } from "../src/store/keys.ts";
import { ADMIN_ENV, adminOf } from "./support/admin.ts";
import { describeWithRedis, newOperator, newRedis, newServer, newServerProcess } from "./support/opened.ts";
import { waitUntilReady } from "./support/operations.ts";
import { grpcClients } from "./support/rpc.ts";
import { groupKeyOf, numberOfEnvironment } from "./support/stored-keys.ts";

const OTHER_KEY = Buffer.alloc(32, 8).toString("base64");

async function newRedisAndOperator(args: readonly string[] = []) {
  const redis = await newRedis(args);
  return { redis, operator: newOperator(redis) };
}

describeWithRedis("a Redis that restarts with an older state", () => {
  it("does not cause duplicate team ids", async () => {
    const { redis, operator } = await newRedisAndOperator(["--dbfilename", "dump.rdb"]);
    const first = await newServer({ redisUrl: redis.url });
    const second = await newServer({ redisUrl: redis.url, like: first });
    const workers = [first, second];
    const create = async (name: string, count: number) => {
      for (const [i, worker] of workers.entries()) {
        const { groups } = grpcClients(worker);
        const ids = Array.from({ length: count }, (_, n) => `${name} ${i} ${n}`);
        await Promise.all(ids.map((userGroupId) => groups.getUserGroup({ userGroupId })));
      }
    };
    await create("kept", 40);
    await operator.save();
    await create("forgotten", 30);
    await redis.kill();
    await redis.restart();
    for (const worker of workers) await waitUntilReady(worker);
    await create("later", 200);
    const keys = await operator.keys(await groupKeyOf(operator, first, "*"));
    expect(keys).toHaveLength(2 * 40 + 2 * 200);
    const teamIds = await Promise.all(keys.map((key) => operator.hget(key, FIELD.teamId)));
    expect(new Set(teamIds).size).toBe(keys.length);
  });

  it("an empty Redis receives the environments and token keys again, after an operator accepts its data", async () => {
    const { redis, operator } = await newRedisAndOperator();
    const server = await newServer({ redisUrl: redis.url, env: ADMIN_ENV });
    const stored = async () => {
      const keys = (await operator.keys("ug:*:environment")).sort();
      const records = keys.map(async (key) => [key, await operator.hgetall(key).then(withoutTime)]);
      return Promise.all([...records, operator.hkeys("ug:token-keys")]);
    };
    const withoutTime = ({ create_time: _, version: __, ...fields }: { [field: string]: string }) => fields;
    const before = await stored();
    expect(before).toHaveLength(4);
    // This Redis has no persistence, and restarts empty.
    await redis.kill();
    await redis.restart();
    await waitUntilReady(server);
    expect(await operator.dbsize()).toBe(0);
    await adminOf(server.url).acceptStoreData({});
    await waitFor("all data is written again", async () => JSON.stringify(await stored()) === JSON.stringify(before));
    expect(await operator.zcard(ENVIRONMENTS_KEY)).toBe(3);
    const wrong = newServerProcess({ redisUrl: redis.url, env: { TOKEN_KEYS: `other:${OTHER_KEY}`, API_TOKENS: "" } });
    expect(await wrong.exited()).toBe(1);
    expect(wrong.output()).toContain("TOKEN_KEYS has none of the keys");
  });

  it("the log contains an error if Redis has a different environment of the same name after a reconnection", async () => {
    const { redis, operator } = await newRedisAndOperator();
    const worker = await newServer({ redisUrl: redis.url });
    const name = { name: worker.environment, tag: "Customer" as const };
    const number = await numberOfEnvironment(operator, name);
    await operator.hset(environmentKey(number), "state", "deleted");
    const next = candidateOf(`${worker.environment}/Customer`, 1);
    await operator.hset(environmentKey(next), {
      state: "active",
      path: `${worker.environment}/Customer`,
      create_time: "1",
    });
    await operator.client("KILL", "TYPE", "normal", "SKIPME", "yes");
    const environment = `${worker.environment}/Customer`;
    const reports = () =>
      worker.log().filter((line) => line.environment === environment && line.msg.includes("different environment"));
    await waitFor("the error is logged", () => reports().length > 0);
    expect(reports()).toMatchObject([{ level: "error" }]);
  });
});
