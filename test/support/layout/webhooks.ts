import { describe, expect, it } from "vitest";
import { newResourceId } from "../../../src/domain/token.ts";
import { TokenCipher } from "../../../src/store/encryption.ts";
import { webhookKey } from "../../../src/store/keys.ts";
import { redisDeliveries } from "../../../src/store/webhooks/deliveries.ts";
import { redisWebhooks } from "../../../src/store/webhooks/webhooks.ts";
import { type ContractContext, contents, newEnvironment, RING } from "../contract/context.ts";
import { AUDIT, BY } from "../stores.ts";

const VALUES = { displayName: "billing", url: "https://example.com/hooks", eventTypes: [] };

export function webhookLayout({ client, redis, store, withGroup }: ContractContext): void {
  const deps = () => ({ client: client(), cipher: new TokenCipher(RING), audit: AUDIT });
  const webhooks = () => redisWebhooks(deps());
  const create = async () => {
    const environment = await newEnvironment();
    const { webhook, secret } = await webhooks().create(environment, VALUES, BY);
    // The creation of another webhook is an event that the first webhook can deliver.
    const { webhook: other } = await webhooks().create(environment, VALUES, BY);
    const { id } = webhook;
    const claim = () => redisDeliveries(deps()).claim({ environment, id, holder: newResourceId() });
    const key = webhookKey(environment.number, id);
    return { environment, id, other, secret, claim, key, secrets: (await redis().hget(key, "secrets")) ?? "" };
  };

  describe("webhook secrets in Redis", () => {
    it("old secrets of a webhook sign no message after the end of their grace period", async () => {
      const { environment, id, claim, key } = await create();
      const { secret } = await webhooks().rotateSecret(environment, id, BY);
      const stored = (await redis().hget(key, "secrets")) ?? "";
      await redis().hset(key, { secrets: stored.replace(/:\d+/g, ":1") });
      const target = await claim();
      expect(target?.secrets).toEqual([secret]);
      expect(target?.webhook.previousSecretExpireTime).toBeUndefined();
    });

    it("the secrets of a webhook are encrypted, and cannot be decrypted for another webhook", async () => {
      const { environment, id, other, secret, secrets } = await create();
      const text = JSON.stringify(await contents(redis(), environment));
      expect(text).toContain(id);
      expect(text).not.toContain(secret.slice("whsec_".length, -1));
      await redis().hset(webhookKey(environment.number, other.id), { secrets });
      expect((await webhooks().beginTest(environment, other.id)).secrets).toEqual([]);
    });

    it("a webhook is in the state `secret_unreadable` if its secrets cannot be decrypted, until its secret is rotated", async () => {
      const { environment, id, claim, key, secrets } = await create();
      const states = async () => {
        const listed = (await webhooks().list(environment)).find((each) => each.id === id);
        return [(await webhooks().get(environment, id)).state, listed?.state];
      };
      const lost = { secrets: secrets.replace(/^[^.]*/, "lost") };
      await redis().hset(key, { ...lost, next_attempt_time: `${Date.now() + 60_000}` });
      expect(await states()).toEqual(["secret_unreadable", "secret_unreadable"]);
      const { webhook, secret } = await webhooks().rotateSecret(environment, id, BY);
      expect(webhook).toMatchObject({ state: "enabled", nextAttemptTime: undefined });
      expect(await states()).toEqual(["enabled", "enabled"]);
      // The old secret cannot be decrypted, so messages are signed only with the new secret.
      expect((await claim())?.secrets).toEqual([secret]);
      await webhooks().update(environment, id, { state: "disabled" }, BY);
      await redis().hset(key, lost);
      expect(await states()).toEqual(["disabled", "disabled"]);
    });
  });

  it("a change of a group writes no data of webhooks", async () => {
    const { environment } = await withGroup();
    await webhooks().create(environment, VALUES, BY);
    const stored = async () =>
      Object.entries(await contents(redis(), environment)).filter(([key]) => /webhook|deliver/.test(key));
    const before = await stored();
    expect(before.length).toBeGreaterThan(0);
    await store().update(environment, "a", { name: "b" });
    expect(await stored()).toEqual(before);
  });
}
