import { pause, waitFor } from "@user-group-service/testing/wait";
import { expect, it } from "vitest";
import { ADMIN_ENV, adminOf, customerOf } from "./support/admin.ts";
import { describeWithRedis, newRedis, newServer } from "./support/opened.ts";
import { grpcClients } from "./support/rpc.ts";
import { firstArrivals, newReceiver, verify } from "./support/webhooks.ts";

/** Number of events. It is small, because each delivery fails once, and its retry waits for about 5 seconds. */
const EVENTS = 12;

describeWithRedis("webhook deliveries by several workers", () => {
  it("a webhook receives every event in order, one at a time, while workers are killed and the endpoint fails half the time", async () => {
    const redis = await newRedis();
    let requests = 0;
    const receiver = await newReceiver((_, response) =>
      // Delay the answer, so that concurrent deliveries by two workers would overlap.
      setTimeout(() => response.writeHead(requests++ % 2 === 0 ? 503 : 204).end(), 50),
    );
    const env = { ...ADMIN_ENV, WEBHOOK_ALLOW: "127.0.0.1" };
    const options = { redisUrl: redis.url, env };
    const first = await newServer(options);
    const start = () => newServer({ ...options, like: first });
    const workers = [first, await start(), await start()];
    const environment = customerOf(first);
    const admin = adminOf(first.url);
    const values = { environment, displayName: "a", url: receiver.url(), eventTypes: ["user_group.created"] };
    const { secret } = await admin.createWebhook(values);
    const expected: string[] = [];
    for (let i = 0; i < EVENTS; i++) {
      const id = `group ${i}`;
      const worker = workers.at(-1) ?? first;
      await grpcClients(worker).groups.getUserGroup({ userGroupId: id });
      expected.push(id);
      if (i % 6 === 5) {
        // After some deliveries, kill the oldest worker, possibly during a delivery.
        const count = receiver.at().length;
        await waitFor("deliveries go on", () => receiver.at().length > count + 1);
        const killed = workers.shift();
        killed?.signal("SIGKILL");
        await killed?.exited();
        workers.push(await start());
      }
    }
    const received = () => [...new Set(receiver.at().map(({ data }) => data["user_group_id"]))];
    await waitFor("all events arrive", () => received().length === EVENTS, 400_000);
    expect(received()).toEqual(expected);
    expect(firstArrivals(receiver.at())).toEqual([...firstArrivals(receiver.at())].sort());
    expect(receiver.concurrency()).toBe(1);
    for (const message of receiver.at()) verify(secret, message);
  }, 600_000);

  it("a webhook receives each event once if a worker is stopped for longer than its lease; only an event in flight may arrive twice", async () => {
    const redis = await newRedis();
    const receiver = await newReceiver((_, response) => setTimeout(() => response.writeHead(204).end(), 200));
    const options = { redisUrl: redis.url, env: { ...ADMIN_ENV, WEBHOOK_ALLOW: "127.0.0.1" } };
    const stopped = await newServer(options);
    const values = { environment: customerOf(stopped), displayName: "a", eventTypes: ["user_group.created"] };
    await adminOf(stopped.url).createWebhook({ ...values, url: receiver.url() });
    const expected = Array.from({ length: 40 }, (_, i) => `group ${i}`);
    for (const userGroupId of expected) await grpcClients(stopped).groups.getUserGroup({ userGroupId });
    await waitFor("deliveries begin", () => receiver.at().length > 2);
    stopped.signal("SIGSTOP");
    // A request in flight may still arrive.
    await pause(1000);
    const before = receiver.at().length;
    expect(before).toBeLessThan(expected.length / 2);
    await newServer({ ...options, like: stopped });
    await waitFor("another worker continues", () => receiver.at().length > before + 1);
    stopped.signal("SIGCONT");
    const received = () => receiver.at().map(({ data }) => data["user_group_id"]);
    await waitFor("all events arrive", () => new Set(received()).size === expected.length);
    expect([...new Set(received())]).toEqual(expected);
    expect(received().length).toBeLessThanOrEqual(expected.length + 1);
    expect(receiver.concurrency()).toBe(1);
  });
});
