import { Redis } from "ioredis";
import { afterEach, describe, expect, inject, it } from "vitest";
import { startRedis } from "./support/redis.ts";
import { grpcClients } from "./support/rpc.ts";
import { startServer } from "./support/server.ts";
import { waitFor } from "./support/wait.ts";

const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

describe.skipIf(inject("redisUrl") === undefined)("a Redis that comes back with an older state", () => {
  it("is given no team id twice by workers that go on", async () => {
    const redis = await startRedis(["--dbfilename", "dump.rdb"]);
    closers.push(() => redis.stop());
    const operator = new Redis(redis.url);
    operator.on("error", () => {});
    closers.push(() => operator.disconnect());
    const first = await startServer({ redisUrl: redis.url });
    closers.push(() => first.stop());
    const second = await startServer({ redisUrl: redis.url, like: first });
    closers.push(() => second.stop());
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
    for (const { url } of workers) {
      await waitFor("a worker is ready again", async () => (await fetch(`${url}/readyz`)).status === 200);
    }
    await create("later", 200);
    const keys = await operator.keys("ug:*:group:*");
    expect(keys).toHaveLength(2 * 40 + 2 * 200);
    const teamIds = await Promise.all(keys.map((key) => operator.hget(key, "team_id")));
    expect(new Set(teamIds).size).toBe(keys.length);
  });
});
