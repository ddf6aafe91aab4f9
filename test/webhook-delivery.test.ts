import { closeLater } from "@user-group-service/testing/opened";
import { pause, waitFor } from "@user-group-service/testing/wait";
import { describe, expect, it } from "vitest";
import { type Network, parseNetwork } from "../src/domain/client-address.ts";
import { ENVIRONMENT_NUMBERS, type Environment } from "../src/domain/environment.ts";
import type { DeliveryOutcome, NewWebhook } from "../src/domain/webhook.ts";
import { redisAuditTrail } from "../src/store/audit-trail.ts";
import type { StoreClient } from "../src/store/connection/client.ts";
import { openEmbedded } from "../src/store/connection/embedded/embedded.ts";
import { TokenCipher } from "../src/store/encryption.ts";
import { apiTokenKey, webhookKey } from "../src/store/keys.ts";
import { redisDeliveries } from "../src/store/webhooks/deliveries.ts";
import { redisWebhooks } from "../src/store/webhooks/webhooks.ts";
import { DeliveryEngine } from "../src/webhooks/engine.ts";
import { newEnvironment, newGroup, RING } from "./support/contract/context.ts";
import { newRedis, newStoreClient, redisUrl } from "./support/opened.ts";
import { redisOf } from "./support/redis-of.ts";
import { todayKey } from "./support/stored-state.ts";
import { AUDIT, BY, testApiTokens, testUserGroups } from "./support/stores.ts";
import { type Answer, firstArrivals, newReceiver, verify } from "./support/webhooks.ts";

const ALLOWED = [parseNetwork("127.0.0.1") as Network];

const embedded = async (): Promise<StoreClient> => {
  const client = await openEmbedded({ timeoutMs: 60_000 });
  closeLater(() => client.close());
  return client;
};

const STORES: readonly (readonly [name: string, open: () => Promise<StoreClient>])[] = [
  ["the embedded store", embedded],
  ...(redisUrl === undefined ? [] : [["Redis", async () => newStoreClient(await newRedis())] as const]),
];

describe.each(STORES)("deliveries on %s", (_, open) => {
  /** Creates an environment with an endpoint. `newEngine` starts the delivery engine of a worker. */
  const setUp = async (answer?: Answer) => {
    const client = await open();
    const environment = await newEnvironment(
      { number: 1 + Math.floor(Math.random() * (ENVIRONMENT_NUMBERS - 1)) },
      redisOf(client),
    );
    const receiver = await newReceiver(answer);
    const deps = { client, cipher: new TokenCipher(RING), audit: AUDIT };
    const webhooks = redisWebhooks(deps);
    const outcomes: DeliveryOutcome[] = [];
    const [disabled, missed, unreadable]: [string[], string[], string[]] = [[], [], []];
    const newEngine = (times = {}) => {
      const engine = new DeliveryEngine({
        store: redisDeliveries(deps),
        events: redisAuditTrail(client, AUDIT),
        apiTokens: testApiTokens(client),
        allowed: ALLOWED,
        observer: {
          attempted: (outcome) => outcomes.push(outcome),
          unreadable: (_, id) => unreadable.push(id),
          unreadableApiToken: (_, id) => unreadable.push(id),
          disabled: (_, id) => disabled.push(id),
          missed: (_, id) => missed.push(id),
        },
        times: { pollMs: 20, retryMs: 20, ...times },
      });
      closeLater(() => engine.close());
      void engine.run();
      return engine;
    };
    const create = (given: Partial<NewWebhook> = {}) =>
      webhooks.create(environment, { displayName: "a", url: receiver.url(), eventTypes: [], ...given }, BY);
    const groups = testUserGroups(client, RING);
    const change = async (count: number, prefix = "g") => {
      for (let i = 0; i < count; i++) await groups.getOrCreate(environment, newGroup(`${prefix}${i}`));
    };
    const named = (of: string) => receiver.at(of).map(({ data }) => data["user_group_id"]);
    const key = (id: string) => webhookKey(environment.number, id);
    const redis = redisOf(client);
    return {
      client,
      redis,
      environment,
      receiver,
      webhooks,
      outcomes,
      disabled,
      missed,
      unreadable,
      newEngine,
      create,
      change,
      named,
      key,
    };
  };
  const idsOf = async (client: StoreClient, environment: Environment) => {
    const { events } = await redisAuditTrail(client, AUDIT).readEvents(
      environment,
      { cursor: 0, cursorTime: undefined },
      1000,
    );
    return events.map(({ id }) => id);
  };

  it("every event is sent at least once and in order, one at a time, if the endpoint fails half the time", async () => {
    const { client, environment, receiver, newEngine, create, change, outcomes, webhooks } = await setUp(
      (_, response) =>
        // Delay the answer, so that concurrent deliveries by two workers would overlap.
        setTimeout(() => response.writeHead(Math.random() < 0.5 ? 503 : 200).end(), 2),
    );
    const { webhook, secret } = await create();
    for (let i = 0; i < 3; i++) newEngine({ retryMs: 5 });
    await change(20);
    const [, ...expected] = await idsOf(client, environment);
    expect(expected).toHaveLength(20);
    const isDone = async () => (await webhooks.get(environment, webhook.id)).cursor >= Number(expected.at(-1));
    await waitFor("all events are delivered", isDone);
    expect(firstArrivals(receiver.at())).toEqual(expected);
    expect(receiver.concurrency()).toBe(1);
    expect(outcomes).toContain("status");
    for (const message of receiver.at()) verify(secret, message);
    // All attempts to send an event have the same message id.
    const ids = receiver.at().map(({ id, data }) => `${id} ${data["event_id"]}`);
    expect(new Set(ids).size).toBe(20);
  });

  it("events reach a webhook while ten other endpoints never answer", async () => {
    const { newEngine, create, change, receiver, named } = await setUp((_, response, path) => {
      if (!path.startsWith("/dead")) response.end();
    });
    for (let i = 0; i < 10; i++) await create({ url: receiver.url(`/dead${i}`) });
    await create({ url: receiver.url("/alive"), eventTypes: ["user_group.created"] });
    newEngine();
    await change(1, "first");
    const isDead = () => Array.from({ length: 10 }, (_, i) => receiver.at(`/dead${i}`).length).every((n) => n === 1);
    await waitFor("each dead endpoint has a request", isDead);
    await change(5);
    await waitFor("the other endpoint has all events", () => named("/alive").length === 6);
    expect(named("/alive")).toEqual(["first0", "g0", "g1", "g2", "g3", "g4"]);
    expect(isDead()).toBe(true);
  });

  it("a webhook receives only its event types", async () => {
    const { environment, client, newEngine, create, change, receiver, webhooks } = await setUp();
    const { webhook } = await create({ eventTypes: ["user_group.deleted", "api_token.created"] });
    newEngine();
    await change(60);
    const values = { displayName: "back end", role: "read" as const, expireTime: undefined };
    const { apiToken } = await testApiTokens(client).create(environment, values, { ...BY, method: "CreateApiToken" });
    const last = Number((await idsOf(client, environment)).at(-1));
    const isDone = async () => (await webhooks.get(environment, webhook.id)).cursor >= last;
    await waitFor("all events are read", isDone);
    expect(receiver.at().map(({ type, data }) => [type, data["api_token_id"]])).toEqual([
      ["api_token.created", apiToken.id],
    ]);
  });

  it("a message reports that events were removed before their delivery, and later events follow", async () => {
    const { redis, environment, create, change, newEngine, receiver, named, missed } = await setUp();
    const { webhook } = await create({ eventTypes: ["user_group.created"] });
    await change(3, "lost");
    // This key contains the events of the day. Its deletion also removes the event at the cursor of the webhook.
    await redis.del(todayKey(environment));
    await change(2, "kept");
    newEngine();
    await waitFor("the other events arrive", () => receiver.at().length >= 3);
    expect(receiver.at().map(({ type }) => type)).toEqual([
      ...["webhook.events_missed", "user_group.created", "user_group.created"],
    ]);
    expect(named("/").slice(1)).toEqual(["kept0", "kept1"]);
    expect(missed).toEqual([webhook.id]);
  });

  it("deliveries continue on another worker when the lease of a dead worker has expired", async () => {
    const { client, redis, environment, create, change, newEngine, named, key } = await setUp();
    const { webhook } = await create();
    await change(1);
    const dead = redisDeliveries({ client, cipher: new TokenCipher(RING), audit: AUDIT });
    expect(await dead.claim({ environment, id: webhook.id, holder: "dead" })).toBeDefined();
    const engine = newEngine();
    await waitFor("the engine has read the event", () => engine.lags().length > 0);
    await pause(100);
    expect(named("/")).toEqual([]);
    await redis.hset(key(webhook.id), { lease_expire_time: "1" });
    await waitFor("the event arrives", () => named("/").length > 0);
    expect(named("/")).toEqual(["g0"]);
    await waitFor("all events are delivered", () => engine.lags().length === 0);
  });

  it("deliveries begin again at the time that a rewind specifies, with the same message ids", async () => {
    const { environment, create, change, newEngine, receiver, webhooks, named } = await setUp();
    const { webhook } = await create({ eventTypes: ["user_group.created"] });
    newEngine();
    await change(3);
    await waitFor("the events arrive", () => receiver.at().length === 3);
    const first = Number(receiver.at()[0]?.data["event_id"]) / 1000;
    await webhooks.rewind(environment, webhook.id, first, BY);
    await waitFor("the events arrive again", () => receiver.at().length === 6);
    expect(named("/")).toEqual(["g0", "g1", "g2", "g0", "g1", "g2"]);
    const ids = receiver.at().map(({ id }) => id);
    expect(ids.slice(3)).toEqual(ids.slice(0, 3));
  });

  it("deliveries use a changed URL, and stop while the webhook is disabled", async () => {
    const { environment, create, change, newEngine, receiver, webhooks, named } = await setUp((_, response, path) =>
      response.writeHead(path === "/bad" ? 500 : 200).end(),
    );
    const { webhook } = await create({ url: receiver.url("/bad"), eventTypes: ["user_group.created"] });
    newEngine({ retryMs: 3_600_000 });
    await change(1);
    await waitFor("an attempt fails", () => receiver.at("/bad").length === 1);
    await waitFor("the failure is stored", async () => (await webhooks.get(environment, webhook.id)).failedAttempts);
    await webhooks.update(environment, webhook.id, { url: receiver.url("/good") }, BY);
    await waitFor("the event arrives", () => named("/good").length === 1);
    await webhooks.update(environment, webhook.id, { state: "disabled" }, BY);
    await change(2, "later");
    await pause(100);
    expect(named("/good")).toEqual(["g0"]);
    await webhooks.update(environment, webhook.id, { state: "enabled" }, BY);
    await waitFor("the waiting events arrive", () => named("/good").length === 3);
    expect(named("/good")).toEqual(["g0", "later0", "later1"]);
  });

  it("a webhook is disabled after three days of failures, and the age of the oldest undelivered event is reported", async () => {
    const { redis, environment, create, change, newEngine, disabled, receiver, webhooks, key } = await setUp(
      (_, response) => response.writeHead(500).end(),
    );
    const { webhook } = await create();
    const engine = newEngine();
    await change(1);
    await waitFor("several attempts fail", () => receiver.at().length >= 3);
    const age = await waitFor("the event has an age", () => engine.lags()[0]);
    expect(age).toMatchObject({ environment: { number: environment.number } });
    expect(disabled).toEqual([]);
    await redis.hset(key(webhook.id), { failing_since: String(Date.now() - 4 * 86_400_000) });
    await waitFor("the webhook is disabled", () => disabled.length > 0);
    expect(disabled).toEqual([webhook.id]);
    expect((await webhooks.get(environment, webhook.id)).state).toBe("failed");
    await waitFor("no undelivered event is reported", () => engine.lags().length === 0);
  });

  it("deliveries fail without a request while the secret cannot be decrypted, and continue after a rotation", async () => {
    const { redis, environment, create, change, newEngine, receiver, webhooks, key, outcomes, unreadable, named } =
      await setUp();
    const { webhook } = await create({ eventTypes: ["user_group.created"] });
    const stored = (await redis.hget(key(webhook.id), "secrets")) ?? "";
    await redis.hset(key(webhook.id), { secrets: stored.replace(/^[^.]*/, "lost") });
    newEngine();
    await change(2);
    await waitFor("attempts fail", () => outcomes.length > 1);
    expect(new Set(outcomes)).toEqual(new Set(["secret"]));
    expect(unreadable).toContain(webhook.id);
    const state = await webhooks.get(environment, webhook.id);
    expect(state).toMatchObject({ state: "secret_unreadable", failedAttempts: expect.any(Number) });
    expect(await webhooks.deliveries(environment, webhook.id)).toContainEqual(
      expect.objectContaining({ outcome: "secret", status: undefined, eventType: "user_group.created" }),
    );
    expect(receiver.at()).toEqual([]);
    const { secret } = await webhooks.rotateSecret(environment, webhook.id, BY);
    await waitFor("the events arrive", () => receiver.at().length === 2);
    expect(named("/")).toEqual(["g0", "g1"]);
    for (const message of receiver.at()) verify(secret, message);
  });

  it("events report API tokens that expire soon, even if the record of another API token is damaged", async () => {
    const { client, redis, environment, create, newEngine, receiver, unreadable } = await setUp();
    const expireTime = Date.now() + 86_400_000 / 2;
    const values = { displayName: "a", role: "read" as const, expireTime };
    const tokens = [];
    for (let i = 0; i < 3; i++) tokens.push((await testApiTokens(client).create(environment, values)).apiToken.id);
    const [damaged = "", ...others] = tokens.sort();
    await redis.hset(apiTokenKey(environment.number, damaged), { role: "x" });
    await create({ eventTypes: ["api_token.expiring"] });
    newEngine();
    await waitFor("the events arrive", () => receiver.at().length === 2);
    const named = receiver.at().map(({ data }) => data["api_token_id"]);
    expect(named.sort()).toEqual(others);
    expect(unreadable).toEqual([damaged]);
  });

  it("each API token that expires within 30 days is reported exactly once", async () => {
    const { client, environment, create, newEngine, receiver } = await setUp();
    const create1 = (days: number) => {
      const expireTime = Date.now() + days * 86_400_000;
      const values = { displayName: "a", role: "read" as const, expireTime };
      return testApiTokens(client).create(environment, values);
    };
    const [, month, soon] = [await create1(31), await create1(29), await create1(0.5)];
    await create({ eventTypes: ["api_token.expiring"] });
    newEngine();
    await waitFor("the events arrive", () => receiver.at().length === 2);
    const ids = [month.apiToken.id, soon.apiToken.id].sort();
    expect(
      receiver
        .at()
        .map(({ data }) => data["api_token_id"])
        .sort(),
    ).toEqual(ids);
  });

  it("a delivery ends when its engine stops, and continues immediately on another worker", async () => {
    let isStuck = true;
    const { create, change, newEngine, receiver } = await setUp((_, response) => void (isStuck || response.end()));
    await create();
    const engine = newEngine();
    await change(1);
    await waitFor("a delivery is in flight", () => receiver.at().length === 1);
    await engine.close();
    isStuck = false;
    const started = performance.now();
    newEngine();
    await waitFor("the event arrives again", () => receiver.at().length === 2);
    // If the first worker had kept its lease, the second worker would wait for 30 s.
    expect(performance.now() - started).toBeLessThan(15_000);
    expect(firstArrivals(receiver.at())).toHaveLength(1);
  });
});
