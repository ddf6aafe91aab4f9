import { waitFor } from "@user-group-service/testing/wait";
import type { Redis } from "ioredis";
import { expect, it } from "vitest";
import { ADMIN_ENV, adminOf, customerOf } from "./support/admin.ts";
import { describeWithRedis, newOperator, newRedis, newServer } from "./support/opened.ts";
import { grpcClients } from "./support/rpc.ts";
import type { TestServer } from "./support/server.ts";
import { newReceiver } from "./support/webhooks.ts";

const CHANGES = 3000;
const CALLERS = 16;
const ENDPOINTS = 10;

describeWithRedis("dead webhook endpoints", () => {
  it("a change costs at most 10 % more Redis commands with ten dead webhook endpoints than without, and each endpoint gets few requests", async () => {
    const { url } = await newRedis();
    const redis = newOperator({ url });
    const receiver = await newReceiver(() => {});
    const server = await newServer({ redisUrl: url, env: { ...ADMIN_ENV, WEBHOOK_ALLOW: "127.0.0.1" } });
    const [admin, environment] = [adminOf(server.url), customerOf(server)];
    const requests = () => Array.from({ length: ENDPOINTS }, (_, i) => receiver.at(`/${i}`).length);
    const withoutWebhooks = await commandsPerChange(server, redis);
    for (let i = 0; i < ENDPOINTS; i++) {
      await admin.createWebhook({ environment, displayName: "dead", url: receiver.url(`/${i}`) });
    }
    await grpcClients(server).groups.updateUserGroup({ userGroupId: "group 0", name: "changed" });
    await waitFor("each dead endpoint has a request", () => requests().every((count) => count > 0));
    const [before, began] = [requests(), performance.now()];
    const withDead = await commandsPerChange(server, redis);
    // Each request to a dead endpoint fails with a timeout. The worker sends the next request at least 5 s later.
    const allowed = 1 + (performance.now() - began) / 5000;
    const added = requests().map((count, i) => count - (before[i] ?? 0));
    console.log(
      `commands per change: ${withoutWebhooks} without webhooks, ${withDead} with dead ones; ${added} requests`,
    );
    expect(withDead).toBeLessThan(1.1 * withoutWebhooks);
    for (const count of added) expect(count).toBeLessThanOrEqual(allowed);
  });
});

/** Changes groups with several calls in flight. Returns the number of Redis commands per change. */
async function commandsPerChange(server: TestServer, redis: Redis): Promise<number> {
  const { groups } = grpcClients(server);
  for (let i = 0; i < CALLERS; i++) await groups.getUserGroup({ userGroupId: `group ${i}` });
  const before = await commandsOf(redis);
  let left = CHANGES;
  const change = async (userGroupId: string) => {
    while (left-- > 0) await groups.updateUserGroup({ userGroupId, name: `name ${left}` });
  };
  await Promise.all(Array.from({ length: CALLERS }, (_, i) => change(`group ${i}`)));
  return ((await commandsOf(redis)) - before) / CHANGES;
}

async function commandsOf(redis: Redis): Promise<number> {
  return Number(/^total_commands_processed:(\d+)/m.exec(await redis.info("stats"))?.[1]);
}
