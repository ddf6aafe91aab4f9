import { closeLater } from "@user-group-service/testing/opened";
import { waitFor } from "@user-group-service/testing/wait";
import { expect, it } from "vitest";
import {
  createUserGroupServiceClient,
  Role,
  reasonOf,
  WatchEventsRequest_Start as Start,
  watchEvents,
} from "../../packages/client/src/index.ts";
import { ADMIN_ENV, ADMIN_TOKEN, newName } from "../support/admin.ts";
import { describeWithRedis, newRedis, newSentinels, newServer } from "../support/opened.ts";
import { DURABLE } from "../support/redis.ts";
import type { TestServer } from "../support/server.ts";
import { newReceiver, verify } from "../support/webhooks.ts";

/** Number of acknowledged changes. `EVENT_CHANGES=100000` tests a large environment. */
const CHANGES = Number(process.env["EVENT_CHANGES"] ?? 3000);

/** Number of faults, evenly spread over the changes. The faults kill a worker and Redis in turn. */
const FAULTS = Math.max(3, Math.ceil(CHANGES / 8000));

/**
 * Duration of a phase, in milliseconds. In one phase, the endpoint of the webhook rejects all messages. In the next
 * phase, it accepts all messages.
 */
const PHASE_MS = 8000;

/** Timeout for the deliveries after the last change, in milliseconds. */
const DELIVERY_MS = 300_000 + CHANGES * 20;

/** Number of writers. Each writer changes its own group. */
const WRITERS = 16;

interface Topology {
  readonly url: string;
  readonly env?: { readonly [setting: string]: string };
  /** Kills the Redis node that serves commands, and waits until Redis serves commands again. */
  fail(): Promise<void>;
}

const TOPOLOGIES: readonly (readonly [name: string, open: () => Promise<Topology>])[] = [
  [
    "failovers of Redis",
    async () => {
      const sentinels = await newSentinels({ downAfterMs: 1000 });
      const fail = async () => {
        const master = await sentinels.master();
        await master.kill();
        await waitFor("another master", async () => (await sentinels.master()) !== master);
        await master.restart();
        await sentinels.whole();
      };
      return { url: sentinels.url, env: { MIN_REPLICAS_ACK: "1" }, fail };
    },
  ],
  [
    "restarts of Redis",
    async () => {
      const redis = await newRedis(DURABLE);
      const fail = async () => {
        await redis.kill();
        await redis.restart();
      };
      return { url: redis.url, fail };
    },
  ],
];

describeWithRedis.each(TOPOLOGIES)("during kills of workers and %s,", (_, open) => {
  const title =
    "a reader that reconnects, and a webhook whose endpoint fails half the time, receive every change in order";
  it(title, { timeout: 1_200_000 + DELIVERY_MS }, async () => {
    const topology = await open();
    const env = {
      ...ADMIN_ENV,
      LOG_LEVEL: "info",
      REDIS_TIMEOUT: "2s",
      AUDIT_MAX_EVENTS: "1000000",
      WEBHOOK_ALLOW: "127.0.0.1",
      ...topology.env,
    };
    const start = (port = "0") => newServer({ redisUrl: topology.url, env: { ...env, PORT: port } });
    const workers: TestServer[] = [await start(), await start()];
    const urls = workers.map(({ url }) => url);
    const clientOf = (i: number, token: string) => {
      const client = createUserGroupServiceClient({ url: urls[i % 2] as string, token, timeoutMs: 60_000 });
      closeLater(() => client.close());
      return client;
    };
    const roots = [clientOf(0, ADMIN_TOKEN).admin, clientOf(1, ADMIN_TOKEN).admin];
    const root = roots[0] as (typeof roots)[0];
    const environment = { name: newName() };
    await root.createEnvironment({ environment });
    const { token } = await root.createApiToken({ environment, displayName: "writer", role: Role.MANAGE });

    const delivered = new Set<number>();
    const failures: string[] = [];
    let [lastDelivered, refused, repeated, gaps] = [0, 0, 0, 0];
    // The first message begins a phase of failures, so the endpoint fails at least once.
    let [isFailing, phaseBegan] = [false, 0];
    const receiver = await newReceiver((message, response) => {
      if (performance.now() - phaseBegan > PHASE_MS) [isFailing, phaseBegan] = [!isFailing, performance.now()];
      if (isFailing) {
        refused++;
        return response.writeHead(503).end();
      }
      try {
        verify(secret, message);
      } catch {
        failures.push(`the message ${message.id} has no valid signature`);
      }
      const id = Number(message.data["event_id"]);
      if (message.type === "webhook.events_missed") {
        // The webhook had delivered an event before a replica confirmed the event. Then the failover lost the event.
        gaps++;
        lastDelivered = 0;
      } else if (delivered.has(id)) {
        repeated++;
      } else {
        if (id <= lastDelivered) failures.push(`the webhook received ${id} after ${lastDelivered}`);
        lastDelivered = id;
        delivered.add(id);
      }
      return response.writeHead(204).end();
    });
    const { secret } = await root.createWebhook({ environment, displayName: "a", url: receiver.url() });

    const acknowledged = new Set<number>();
    const begun = performance.now();
    let isDone = false;
    const writing = Promise.all(
      Array.from({ length: WRITERS }, async (_, writer) => {
        const { userGroups } = clientOf(writer, token);
        const userGroupId = `group ${writer}`;
        await userGroups.getUserGroup({ userGroupId });
        for (let i = 0; acknowledged.size < CHANGES; i++) {
          // The outcome of a failed change is unknown, so the change does not count as acknowledged.
          const answer = await userGroups.updateUserGroup({ userGroupId, name: `${i}` }).catch(() => undefined);
          // The etag ends with the version, which is the id of the event.
          if (answer?.userGroup) acknowledged.add(Number(answer.userGroup.etag.split("-")[1]));
        }
      }),
    ).finally(() => {
      isDone = true;
    });

    const seen = new Set<number>();
    let restarts = 0;
    let cursor = "";
    const reading = (async () => {
      let last = 0;
      for (let turn = 0; ; turn++) {
        // The reader alternates between the two workers.
        const signal = AbortSignal.timeout(2000);
        const request = { environment, ...(cursor === "" ? { start: Start.BEGINNING } : { cursor }) };
        try {
          for await (const response of watchEvents(roots[turn % 2] as (typeof roots)[0], request, { signal })) {
            cursor = response.cursor;
            if (response.content.case === "event") {
              const id = Number(response.content.value.id);
              if (id <= last) failures.push(`the reader saw ${id} after ${last}`);
              last = id;
              seen.add(id);
            } else if (isDone && [...acknowledged].every((id) => seen.has(id))) return;
          }
          if (isDone && last >= Math.max(...acknowledged)) return;
        } catch (error) {
          // The reader had read an event before a replica confirmed the event. Then the failover lost the event.
          if (reasonOf(error) !== "EVENT_CURSOR_EXPIRED") throw error;
          restarts++;
          [cursor, last] = ["", 0];
        }
      }
    })();
    reading.catch(() => {});

    for (let fault = 0; fault < FAULTS; fault++) {
      await waitFor("further changes", () => acknowledged.size >= ((fault + 1) * CHANGES) / (FAULTS + 1), 600_000);
      if (fault % 2 === 0) {
        const i = (fault / 2) % 2;
        const worker = workers[i] as TestServer;
        worker.signal("SIGKILL");
        await worker.stop();
        workers[i] = await start(new URL(worker.url).port);
      } else {
        await topology.fail();
      }
    }
    await writing;
    const writtenAt = performance.now();
    await reading;
    const isMissing = (id: number) => !delivered.has(id);
    await waitFor("the webhook has every change", () => ![...acknowledged].some(isMissing), DELIVERY_MS);
    const stored: number[] = [];
    for await (const { content } of watchEvents(root, { environment, start: Start.BEGINNING })) {
      if (content.case !== "event") break;
      stored.push(Number(content.value.id));
    }
    const figures = { acknowledged: acknowledged.size, stored: stored.length, faults: FAULTS };
    const reader = { seen: seen.size, restarts };
    const seconds = { written: (writtenAt - begun) / 1000, delivered: (performance.now() - begun) / 1000 };
    console.log({ figures, reader, webhook: { delivered: delivered.size, repeated, refused, gaps }, seconds });
    expect(failures).toEqual([]);
    expect([...acknowledged].filter((id) => !seen.has(id))).toEqual([]);
    expect(stored.filter((id) => !seen.has(id))).toEqual([]);
    expect(refused).toBeGreaterThan(0);
    expect(stored.length).toBeGreaterThanOrEqual(acknowledged.size);
  });
});
