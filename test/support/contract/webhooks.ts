import { describe, expect, it } from "vitest";
import type { Environment } from "../../../src/domain/environment.ts";
import {
  EnvironmentNotFound,
  TooManyWebhooks,
  WebhookNotFound,
  WebhookTestLimited,
} from "../../../src/domain/errors.ts";
import { newResourceId } from "../../../src/domain/token.ts";
import {
  type Claim,
  DISABLE_AFTER_MS,
  MAX_DELIVERIES,
  MAX_WEBHOOKS,
  type Settlement,
  type Webhook,
} from "../../../src/domain/webhook.ts";
import { redisAuditTrail } from "../../../src/store/audit-trail.ts";
import { TokenCipher } from "../../../src/store/encryption.ts";
import { RedisTokenKeys } from "../../../src/store/secret-keys/token-keys.ts";
import { redisDeliveries } from "../../../src/store/webhooks/deliveries.ts";
import { redisWebhooks } from "../../../src/store/webhooks/webhooks.ts";
import { leftovers, setWebhookTimes } from "../stored-state.ts";
import { AUDIT, BY, testApiTokens, testEnvironments } from "../stores.ts";
import { type ContractContext, fails, NEXT, newEnvironment, newName, oneWins, RING } from "./context.ts";

const VALUES = { displayName: "billing", url: "https://example.com/hooks", eventTypes: [] };

export function webhookContract({ client, redis, withGroup }: ContractContext): void {
  const depsOf = (ring = RING) => ({ client: client(), cipher: new TokenCipher(ring), audit: AUDIT });
  const webhooks = (ring = RING) => redisWebhooks(depsOf(ring));
  const deliveries = (ring = RING) => redisDeliveries(depsOf(ring));
  const eventsOf = async (environment: Environment) => {
    const { events } = await redisAuditTrail(client(), AUDIT).readEvents(
      environment,
      { cursor: 0, cursorTime: undefined },
      100,
    );
    return events.map(({ type, webhookId, apiTokenId, changedFields }) => ({
      ...{ type, id: webhookId ?? apiTokenId },
      changedFields,
    }));
  };
  /** Creates a webhook, and then two events in its environment. The webhook has not delivered these events. */
  const lagging = async () => {
    const environment = await newEnvironment();
    const { webhook } = await webhooks().create(environment, VALUES, BY);
    // The test needs two events, because `advance` moves the cursor by one. If the ids of the events are consecutive,
    // `advance` skips the first event. The second event is then still undelivered.
    for (let i = 0; i < 2; i++) await webhooks().create(environment, VALUES, BY);
    return { environment, webhook };
  };
  const claimOf = (environment: Environment, { id }: Pick<Webhook, "id">): Claim => ({
    ...{ environment, id },
    holder: newResourceId(),
  });
  const attemptOf = (outcome: "delivered" | "status", eventTime = 1_700_000_000_000) => ({
    ...{ eventId: "17", eventType: "user_group.updated", eventTime, outcome, durationMs: 12.4, retryMs: 60_000 },
    status: outcome === "delivered" ? 204 : 500,
  });
  /** Returns the result of a delivery step that moves the cursor of a webhook by one microsecond. */
  const advance = ({ cursor, cursorTime }: Webhook, given: Partial<Settlement> = {}): Settlement => ({
    from: { cursor, cursorTime },
    to: { cursor: cursor + 1, cursorTime },
    release: false,
    ...given,
  });

  describe("webhooks", () => {
    it("webhooks can be created, read, listed, changed and deleted, with one event per change", async () => {
      const environment = await newEnvironment();
      const { webhook, secret } = await webhooks().create(environment, VALUES, BY);
      expect(secret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/);
      expect(webhook).toMatchObject({ ...VALUES, state: "enabled", failedAttempts: 0 });
      expect(await webhooks().get(environment, webhook.id)).toEqual(webhook);
      const change = {
        url: "https://example.com/other",
        eventTypes: ["user_group.created"],
        state: "disabled",
      } as const;
      const changed = await webhooks().update(environment, webhook.id, change, BY);
      expect(changed).toMatchObject({ url: change.url, eventTypes: change.eventTypes, state: "disabled" });
      expect(await webhooks().list(environment)).toEqual([changed]);
      await webhooks().update(environment, webhook.id, change, BY);
      await webhooks().delete(environment, webhook.id, BY);
      await fails(webhooks().get(environment, webhook.id), WebhookNotFound);
      expect(await webhooks().list(environment)).toEqual([]);
      const fields = (await eventsOf(environment)).map(({ id, changedFields }) => [id, [...changedFields].sort()]);
      expect(fields).toEqual([
        [webhook.id, []],
        [webhook.id, ["event_types", "state", "url"]],
        [webhook.id, []],
      ]);
      expect(await leftovers(redis(), environment)).toEqual([]);
    });

    it("webhooks cannot be used with an unknown or malformed id, or created in an unknown environment", async () => {
      const environment = await newEnvironment();
      for (const id of [newResourceId(), "", "x", "__proto__", "a:b"]) {
        await fails(webhooks().get(environment, id), WebhookNotFound);
        await fails(webhooks().update(environment, id, {}, BY), WebhookNotFound);
        await fails(webhooks().delete(environment, id, BY), WebhookNotFound);
        await fails(webhooks().rotateSecret(environment, id, BY), WebhookNotFound);
        await fails(webhooks().deliveries(environment, id), WebhookNotFound);
        await fails(webhooks().rewind(environment, id, 0, BY), WebhookNotFound);
        await fails(webhooks().beginTest(environment, id), WebhookNotFound);
      }
      const unknown = { name: newName(), tag: undefined, number: 4_000_001 };
      await fails(webhooks().create(unknown, VALUES, BY), EnvironmentNotFound);
    });

    it(`webhooks are limited to ${MAX_WEBHOOKS} per environment`, async () => {
      const environment = await newEnvironment();
      for (let i = 1; i < MAX_WEBHOOKS; i++) await webhooks().create(environment, VALUES, BY);
      const last = [1, 2, 3].map(() => webhooks().create(environment, VALUES, BY));
      await oneWins(last, TooManyWebhooks);
      expect(await webhooks().list(environment)).toHaveLength(MAX_WEBHOOKS);
    });

    it("webhooks are deleted with their environment", async () => {
      const environments = testEnvironments(client());
      const name = { name: newName(), tag: undefined };
      const environment = await environments.create(name);
      const { webhook } = await webhooks().create(environment, VALUES, BY);
      await webhooks().create(environment, VALUES, BY);
      const claim = claimOf(environment, webhook);
      const target = await deliveries().claim(claim);
      await deliveries().settle(claim, advance(target?.webhook ?? webhook, { attempt: attemptOf("delivered") }));
      expect(await deliveries().environments({ after: "", size: 1000 })).toMatchObject({
        items: expect.arrayContaining([expect.objectContaining({ number: environment.number })]),
      });
      await environments.delete(name, true);
      expect(await leftovers(redis(), environment)).toEqual([]);
      expect(await deliveries().due(environment)).toBeUndefined();
      await deliveries().forget(environment);
      const { items } = await deliveries().environments({ after: "", size: 1000 });
      expect(items).not.toContainEqual(expect.objectContaining({ number: environment.number }));
    });
  });

  describe("webhook secrets", () => {
    it("the secrets of a webhook are the current secret and the secrets replaced in the last 24 hours, at most three in total", async () => {
      const { environment, webhook } = await lagging();
      const { secrets: first = [] } = (await webhooks().beginTest(environment, webhook.id)) ?? {};
      const rotated = await webhooks().rotateSecret(environment, webhook.id, BY);
      const target = await deliveries().claim(claimOf(environment, webhook));
      expect(target?.secrets).toEqual([rotated.secret, ...first]);
      expect(rotated.webhook.previousSecretExpireTime).toBeGreaterThan(Date.now() + 86_000_000);
      const second = await webhooks().rotateSecret(environment, webhook.id, BY);
      const third = await webhooks().rotateSecret(environment, webhook.id, BY);
      await setWebhookTimes(redis(), environment, webhook, { leaseExpireTime: 1 });
      const last = await deliveries().claim(claimOf(environment, webhook));
      expect(last?.secrets).toEqual([third.secret, second.secret, rotated.secret]);
    });

    it("the secrets of a webhook are re-encrypted with the first key, and the result counts the webhooks per key", async () => {
      const { environment } = await withGroup();
      const { webhook } = await webhooks().create(environment, VALUES, BY);
      await webhooks().rotateSecret(environment, webhook.id, BY);
      const [OLD] = RING;
      const ring = [NEXT, ...(OLD ? [OLD] : [])];
      const before = await webhooks().beginTest(environment, webhook.id);
      const keys = (held = ring) => new RedisTokenKeys({ ...depsOf(held), environments: testEnvironments(client()) });
      const page = { after: "", size: 100 };
      const lost = await keys([NEXT]).reencrypt(environment, page, BY);
      expect(lost.failed.webhooks).toEqual([webhook.id]);
      const dry = await keys().reencrypt(environment, page, undefined);
      expect([...dry.uses].map(([keyId, use]) => [keyId, use.webhooks])).toEqual([["k1", 1]]);
      await keys().reencrypt(environment, page, BY);
      const done = await keys().reencrypt(environment, page, undefined);
      expect([...done.uses].map(([keyId, use]) => [keyId, use.webhooks])).toEqual([["k2", 1]]);
      const target = await deliveries([NEXT]).claim(claimOf(environment, webhook));
      expect(target?.secrets).toEqual(before.secrets);
      expect(target?.secrets).toHaveLength(2);
    });
  });

  describe("webhook leases", () => {
    it("the lease of a webhook has at most one holder, and can have a new holder after it has expired", async () => {
      const { environment, webhook } = await lagging();
      const claims = Array.from({ length: 8 }, () => claimOf(environment, webhook));
      const won = await Promise.all(claims.map((claim) => deliveries().claim(claim)));
      expect(won.filter((target) => target !== undefined)).toHaveLength(1);
      const holder = claims[won.findIndex((target) => target !== undefined)] as Claim;
      expect((await deliveries().due(environment))?.webhooks.find(({ id }) => id === webhook.id)?.isFree).toBe(false);
      await setWebhookTimes(redis(), environment, webhook, { leaseExpireTime: 1 });
      const next = claimOf(environment, webhook);
      const target = await deliveries().claim(next);
      expect(target).toBeDefined();
      // The lease of the first holder has expired, so the first holder can no longer change the webhook.
      const attempt = attemptOf("delivered");
      expect(await deliveries().settle(holder, advance(webhook, { attempt }))).toBeUndefined();
      expect(await webhooks().get(environment, webhook.id)).toMatchObject({ cursor: webhook.cursor });
      expect(await webhooks().deliveries(environment, webhook.id)).toEqual([]);
      const settled = await deliveries().settle(next, advance(webhook, { attempt, release: true }));
      expect(settled?.webhook.cursor).toBe(webhook.cursor + 1);
      expect(await deliveries().claim(claimOf(environment, webhook))).toBeDefined();
    });

    it("the lease is refused if the webhook is disabled, has no undelivered events or waits for a retry, or if its environment does not exist", async () => {
      const { environment, webhook } = await lagging();
      const claim = claimOf(environment, webhook);
      const update = (state: "enabled" | "disabled") => webhooks().update(environment, webhook.id, { state }, BY);
      await update("disabled");
      expect(await deliveries().claim(claim)).toBeUndefined();
      expect((await deliveries().due(environment))?.webhooks.map(({ id }) => id)).not.toContain(webhook.id);
      await update("enabled");
      expect(await deliveries().claim(claim)).toBeDefined();
      const failed = await deliveries().settle(claim, advance(webhook, { attempt: attemptOf("status") }));
      expect(failed?.webhook).toMatchObject({ failedAttempts: 1, cursor: webhook.cursor, state: "enabled" });
      expect(failed?.webhook.nextAttemptTime).toBeGreaterThan(Date.now() + 30_000);
      expect(await deliveries().claim(claim)).toBeUndefined();
      expect((await deliveries().due(environment))?.webhooks.find(({ id }) => id === webhook.id)).toMatchObject({
        ...{ isFree: false, failedEventTime: attemptOf("status").eventTime },
      });
      await update("enabled");
      expect(await deliveries().claim(claim)).toBeDefined();
      const to = { cursor: Date.now() * 2000, cursorTime: Date.now() };
      await deliveries().settle(claim, advance(webhook, { to, release: true }));
      expect(await deliveries().claim(claim)).toBeUndefined();
      const other = { ...environment, number: 4_000_002 };
      expect(await deliveries().claim({ ...claim, environment: other })).toBeUndefined();
    });
  });

  describe("settle", () => {
    it("logs each attempt, and numbers the attempts of each event", async () => {
      const { environment, webhook } = await lagging();
      const claim = claimOf(environment, webhook);
      for (const outcome of ["status", "status", "delivered"] as const) {
        await setWebhookTimes(redis(), environment, webhook, { nextAttemptTime: 1 });
        expect(await deliveries().claim(claim)).toBeDefined();
        await deliveries().settle(claim, advance(webhook, { attempt: attemptOf(outcome) }));
      }
      const logged = await webhooks().deliveries(environment, webhook.id);
      expect(logged.map(({ attempt, outcome, status }) => [attempt, outcome, status])).toEqual([
        [3, "delivered", 204],
        [2, "status", 500],
        [1, "status", 500],
      ]);
      expect(logged[0]).toMatchObject({ eventId: "17", eventType: "user_group.updated", durationMs: 12 });
      const now = await webhooks().get(environment, webhook.id);
      expect(now).toMatchObject({ failedAttempts: 0, failingSince: undefined, nextAttemptTime: undefined });
      expect(now.lastSuccessTime).toBeGreaterThan(0);
      for (let i = 0, from = now; i < MAX_DELIVERIES + 5; i++) {
        const settled = await deliveries().settle(claim, advance(from, { attempt: attemptOf("delivered") }));
        from = settled?.webhook ?? expect.fail("the lease is lost");
      }
      expect(await webhooks().deliveries(environment, webhook.id)).toHaveLength(MAX_DELIVERIES);
    });

    it("disables a webhook after three days of failures and writes an event; an update enables the webhook again", async () => {
      const { environment, webhook } = await lagging();
      const claim = claimOf(environment, webhook);
      const fail = async (failingSince: number) => {
        await setWebhookTimes(redis(), environment, webhook, { nextAttemptTime: 1, failingSince });
        expect(await deliveries().claim(claim)).toBeDefined();
        return deliveries().settle(claim, advance(webhook, { attempt: attemptOf("status") }));
      };
      expect((await fail(Date.now() - DISABLE_AFTER_MS + 60_000))?.webhook.state).toBe("enabled");
      expect((await fail(Date.now() - DISABLE_AFTER_MS - 60_000))?.webhook.state).toBe("failed");
      expect((await eventsOf(environment)).at(-1)).toEqual({
        ...{ type: "webhook.disabled", id: webhook.id, changedFields: ["state"] },
      });
      expect(await deliveries().claim(claim)).toBeUndefined();
      const enabled = await webhooks().update(environment, webhook.id, { state: "enabled" }, BY);
      expect(enabled).toMatchObject({ state: "enabled", failedAttempts: 0, cursor: webhook.cursor });
      expect(await deliveries().claim(claim)).toBeDefined();
    });

    it("does not overwrite the cursor of a concurrent rewind", async () => {
      const { environment, webhook } = await lagging();
      const claim = claimOf(environment, webhook);
      await deliveries().claim(claim);
      const time = Math.floor(webhook.cursor / 1000) - 5000;
      const rewound = await webhooks().rewind(environment, webhook.id, time, BY);
      expect(rewound).toMatchObject({ cursor: time * 1000, cursorTime: undefined });
      for (const outcome of ["delivered", "status"] as const) {
        const settled = await deliveries().settle(claim, advance(webhook, { attempt: attemptOf(outcome) }));
        expect(settled?.webhook).toMatchObject({ cursor: time * 1000, failedAttempts: 0, cursorTime: undefined });
      }
      const ahead = await webhooks().rewind(environment, webhook.id, Date.now() + 1000, BY);
      expect(ahead.cursor).toBe(time * 1000);
    });
  });

  it("a second test delivery of a webhook within seconds is refused", async () => {
    const environment = await newEnvironment();
    const { webhook, secret } = await webhooks().create(environment, VALUES, BY);
    expect(await webhooks().beginTest(environment, webhook.id)).toEqual({ webhook, secrets: [secret] });
    await fails(webhooks().beginTest(environment, webhook.id), WebhookTestLimited);
    const other = await newEnvironment();
    const { webhook: next } = await webhooks().create(other, VALUES, BY);
    expect(await webhooks().beginTest(other, next.id)).toBeDefined();
  });

  it("only one of several workers begins the hourly check, which renews the cursors of idle webhooks", async () => {
    const environment = await newEnvironment();
    const { webhook: lags } = await webhooks().create(environment, VALUES, BY);
    const { webhook: idle } = await webhooks().create(environment, VALUES, BY);
    for (const each of [lags, idle]) await setWebhookTimes(redis(), environment, each, { cursorTime: 5 });
    expect((await deliveries().due(environment))?.checkTime).toBeUndefined();
    const begun = await Promise.all([1, 2, 3].map(() => deliveries().beginCheck(environment)));
    expect(begun.filter(Boolean)).toHaveLength(1);
    expect((await deliveries().due(environment))?.checkTime).toBeGreaterThan(0);
    expect((await webhooks().get(environment, lags.id)).cursorTime).toBe(5);
    expect((await webhooks().get(environment, idle.id)).cursorTime).toBeGreaterThan(5);
  });

  it("the expiry of an API token is reported once for each number of days left, and again for a new expiry time", async () => {
    const environment = await newEnvironment();
    const tokens = testApiTokens(client());
    const expireTime = Date.now() + 86_400_000;
    const values = { displayName: "back end", role: "read" as const, expireTime };
    const { apiToken } = await tokens.create(environment, values);
    const note = (days: number, at = expireTime) =>
      deliveries().noteExpiry(environment, { id: apiToken.id, expireTime: at }, days);
    expect([await note(30), await note(30), await note(7), await note(30), await note(7), await note(1)]).toEqual([
      ...[true, false, true, false, false, true],
    ]);
    expect(await note(1, expireTime + 1)).toBe(false);
    await tokens.update(environment, apiToken.id, { expireTime: expireTime + 5 });
    expect(await note(30, expireTime + 5)).toBe(true);
    const expiring = (await eventsOf(environment)).filter(({ type }) => type === "api_token.expiring");
    expect(expiring).toEqual(
      Array.from({ length: 4 }, () => ({
        ...{ type: "api_token.expiring", id: apiToken.id, changedFields: ["expire_time"] },
      })),
    );
    await tokens.revoke(environment, apiToken.id);
    expect(await note(1, expireTime + 5)).toBe(false);
  });
}
