import { cpuMsOf } from "@user-group-service/testing/process-usage";
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

/**
 * Number of rounds. Each round measures once without dead endpoints, and once with them. Of each kind, only the lowest
 * cost counts.
 */
const ROUNDS = 4;

interface Cost {
  readonly workerMs: number;
  readonly redisMs: number;
  readonly commands: number;
}

async function usageOf(redis: Redis) {
  const info = await redis.info();
  const value = (field: string) => Number(new RegExp(`^${field}:([\\d.]+)`, "m").exec(info)?.[1]);
  return {
    ms: 1000 * (value("used_cpu_user") + value("used_cpu_sys")),
    commands: value("total_commands_processed"),
  };
}

async function costOf(server: TestServer, redis: Redis): Promise<Cost> {
  const { groups } = grpcClients(server);
  const [before, cpuMs] = [await usageOf(redis), cpuMsOf(server.pid)];
  let left = CHANGES;
  const change = async (userGroupId: string) => {
    while (left-- > 0) await groups.updateUserGroup({ userGroupId, name: `name ${left}` });
  };
  await Promise.all(Array.from({ length: CALLERS }, (_, i) => change(`group ${i}`)));
  const after = await usageOf(redis);
  return {
    workerMs: (cpuMsOf(server.pid) - cpuMs) / CHANGES,
    redisMs: (after.ms - before.ms) / CHANGES,
    commands: (after.commands - before.commands) / CHANGES,
  };
}

describeWithRedis("a change", () => {
  it("costs at most 20 % more CPU and Redis commands with ten dead endpoints than without webhooks", async () => {
    const { url } = await newRedis();
    const redis = newOperator({ url });
    const receiver = await newReceiver(() => {});
    const server = await newServer({
      redisUrl: url,
      env: { ...ADMIN_ENV, WEBHOOK_ALLOW: "127.0.0.1", LOG_LEVEL: "info" },
    });
    const [admin, environment] = [adminOf(server.url), customerOf(server)];
    const { groups } = grpcClients(server);
    for (let i = 0; i < CALLERS; i++) await groups.getUserGroup({ userGroupId: `group ${i}` });
    const ids: string[] = [];
    for (let i = 0; i < 10; i++) {
      const created = await admin.createWebhook({ environment, displayName: "dead", url: receiver.url(`/${i}`) });
      ids.push(created.webhook?.id ?? "");
    }
    const enable = async (enabled: boolean) => {
      for (const webhookId of ids) {
        await admin.updateWebhook({ environment, webhookId, enabled, updateMask: { paths: ["enabled"] } });
      }
    };
    const attempts = () => ids.map((_, i) => receiver.at(`/${i}`).length);
    const costs = { without: [] as Cost[], dead: [] as Cost[] };
    // The first changes are slow, because the runtime compiles the code.
    await costOf(server, redis);
    for (let round = 0; round < ROUNDS; round++) {
      await enable(false);
      costs.without.push(await costOf(server, redis));
      const before = attempts();
      await enable(true);
      await groups.updateUserGroup({ userGroupId: "group 0", name: `round ${round}` });
      await waitFor("each dead endpoint has a request", () => attempts().every((count, i) => count > (before[i] ?? 0)));
      costs.dead.push(await costOf(server, redis));
    }
    const least = (all: readonly Cost[], of: keyof Cost) => Math.min(...all.map((cost) => cost[of]));
    for (const of of ["workerMs", "redisMs", "commands"] as const) {
      const [without, dead] = [least(costs.without, of), least(costs.dead, of)];
      console.log(
        `${of} per change: ${without.toFixed(3)} without webhooks, ${dead.toFixed(3)} with ten dead endpoints`,
      );
      expect(dead, of).toBeLessThan(without * 1.2);
    }
  });
});
