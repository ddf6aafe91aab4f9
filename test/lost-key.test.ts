import { waitFor } from "@user-group-service/testing/wait";
import { expect, it } from "vitest";
import { DeliveryOutcome as Outcome, WebhookState as State } from "../gen/usergroup/admin/v1/webhook_pb.ts";
import { asRoot, ugs } from "../packages/cli/test/support/ugs.ts";
import { TOKEN_KEYS_KEY } from "../src/store/keys.ts";
import { ADMIN_ENV, adminOf, customerOf } from "./support/admin.ts";
import { describeWithRedis, newOperator, newRedis, newServer } from "./support/opened.ts";
import { metricsTextOf } from "./support/operations.ts";
import { restCalls } from "./support/rest-calls.ts";
import { grpcClients } from "./support/rpc.ts";
import { tokenKey } from "./support/server.ts";
import { newReceiver, verify } from "./support/webhooks.ts";

describeWithRedis("a server whose TOKEN_KEYS lacks the key of a group", () => {
  it("rejects changes of the group over REST before any write, and rotates the token of the group by id", async () => {
    const redis = await newRedis();
    const before = await newServer({ redisUrl: redis.url, env: { TOKEN_KEYS: tokenKey("lost", 1) } });
    const { id, user_group } = await restCalls(before).created();
    // Stop the server before the deletion, because a running server records its key repeatedly.
    await before.stop();
    // An operator runs this command after a key is lost.
    await newOperator(redis).hdel(TOKEN_KEYS_KEY, "lost");
    const env = { TOKEN_KEYS: tokenKey("next", 2) };
    const after = await newServer({ redisUrl: redis.url, env, like: before });

    const refused = await restCalls(after).call("PUT", { user_group_id: id, name: "New" });
    expect(refused.status).toBe(500);
    expect(refused.json()).toMatchObject({ error: { reason: "RECORD_UNREADABLE", outcome: "not_made" } });
    const logged = await waitFor("the log names the key", () => after.log().find(({ level }) => level === "error"));
    expect(logged).toMatchObject({ user_group_id: id, cause: expect.stringContaining('"lost"') });
    const both = await newServer({
      redisUrl: redis.url,
      env: { TOKEN_KEYS: `${tokenKey("next", 2)},${tokenKey("lost", 1)}` },
      like: before,
    });
    const kept = await restCalls(both).ok(restCalls(both).call("GET", { user_group_id: id }));
    expect(kept.user_group).toEqual(user_group);

    const rotated = await restCalls(after).ok(restCalls(after).call("POST", { user_group_id: id }));
    expect(rotated.user_group).toMatchObject({ name: id, team_id: user_group["team_id"] });
    expect((await restCalls(after).call("PUT", { user_group_id: id, name: "New" })).status).toBe(200);
  });
});

describeWithRedis("a server whose TOKEN_KEYS lacks the key of a webhook", () => {
  it("reports the missing key, sends nothing, and delivers the events after a rotation of the secret", async () => {
    const redis = await newRedis();
    const settings = { ...ADMIN_ENV, WEBHOOK_ALLOW: "127.0.0.1" };
    const before = await newServer({ redisUrl: redis.url, env: { ...settings, TOKEN_KEYS: tokenKey("lost", 1) } });
    const receiver = await newReceiver();
    const environment = customerOf(before);
    const values = { environment, displayName: "a", url: receiver.url(), eventTypes: ["user_group.created"] };
    const webhookId = (await adminOf(before.url).createWebhook(values)).webhook?.id ?? "";
    await before.stop();
    await newOperator(redis).hdel(TOKEN_KEYS_KEY, "lost");
    const server = await newServer({
      redisUrl: redis.url,
      env: { ...settings, TOKEN_KEYS: tokenKey("next", 2) },
      like: before,
    });
    const admin = adminOf(server.url);
    expect((await admin.getWebhook({ environment, webhookId })).webhook?.state).toBe(State.SECRET_UNREADABLE);
    const { code, stdout, stderr } = await ugs(["webhook", "get", webhookId, "--env", `${environment.name}/Customer`], {
      env: asRoot(server),
    });
    expect([code, stdout]).toEqual([0, expect.stringMatching(/^state +secret_unreadable$/m)]);
    expect(stderr).toContain(`run: ugs webhook rotate-secret ${webhookId}`);
    expect((await admin.testWebhook({ environment, webhookId })).outcome).toBe(Outcome.SECRET);
    await grpcClients(server).groups.getUserGroup({ userGroupId: "acme" });
    const isFailed = /^ugs_webhook_attempts_total\{outcome="secret"\} [1-9]/m;
    await waitFor("an attempt fails", async () => isFailed.test(await metricsTextOf(server)));
    const logged = server.log().find(({ webhook_id: id }) => id === webhookId);
    expect(logged).toMatchObject({ level: "warn", msg: expect.stringContaining("TOKEN_KEYS") });
    expect(receiver.at()).toEqual([]);
    const { webhook, secret } = await admin.rotateWebhookSecret({ environment, webhookId });
    expect(webhook).toMatchObject({ state: State.ENABLED, failedAttempts: 0 });
    const message = await waitFor("the event arrives", () => receiver.at()[0]);
    verify(secret, message);
    expect(message.data["user_group_id"]).toBe("acme");
  });
});
