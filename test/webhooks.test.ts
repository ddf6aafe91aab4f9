import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { ConnectError } from "@connectrpc/connect";
import { RUNTIMES } from "@user-group-service/testing/runtime";
import { waitFor } from "@user-group-service/testing/wait";
import { describe, expect, it } from "vitest";
import { Role } from "../gen/usergroup/admin/v1/api_token_pb.ts";
import { DeliveryOutcome as Outcome, WebhookState as State } from "../gen/usergroup/admin/v1/webhook_pb.ts";
import { EVENT_TYPES } from "../src/domain/events.ts";
import { MISSED_TYPE, TEST_TYPE } from "../src/webhooks/payload.ts";
import { ADMIN_ENV, adminOf, customerOf } from "./support/admin.ts";
import { DOCUMENT, faultOf } from "./support/openapi/document.ts";
import { newRedis, newServer, redisUrl } from "./support/opened.ts";
import { metricsTextOf } from "./support/operations.ts";
import { failureOf, grpcClients } from "./support/rpc.ts";
import { newReceiver, verify } from "./support/webhooks.ts";

const ENV = { ...ADMIN_ENV, WEBHOOK_ALLOW: "127.0.0.1" };

/** The embedded store, and Redis if redis-server is installed. */
const STORES = redisUrl === undefined ? (["embedded"] as const) : (["embedded", "Redis"] as const);

/** Returns the reason why a message does not match its schema in the OpenAPI document. Undefined if it matches. */
function faultIn(type: string, body: string): string | undefined {
  const schema = DOCUMENT.webhooks[type]?.post.requestBody?.content["application/json"]?.schema;
  return schema ? faultOf(schema, JSON.parse(body)) : `no schema of ${type}`;
}

it("the OpenAPI document has a schema for each event type, and each schema requires the id of the resource", () => {
  const types = [...EVENT_TYPES, TEST_TYPE, MISSED_TYPE];
  expect(Object.keys(DOCUMENT.webhooks).sort()).toEqual([...types].sort());
  const message = (type: string, data: object) => JSON.stringify({ type, timestamp: new Date().toISOString(), data });
  const common = { event_id: "1", environment: "a", actor_id: "root", changed_fields: [] };
  expect(faultIn("user_group.created", message("user_group.created", common))).toContain("user_group_id");
  expect(faultIn("api_token.created", message("api_token.created", common))).toContain("api_token_id");
  expect(faultIn("environment.created", message("environment.created", common))).toBeUndefined();
  expect(faultIn("environment.created", message("environment.updated", common))).toContain("type");
});

describe.each(RUNTIMES)("webhooks on %s", (runtime) => {
  it.each(STORES)("a webhook receives the changes of its environment, with the %s store", async (store) => {
    const redis = store === "Redis" ? await newRedis() : undefined;
    const server = await newServer({ runtime, redisUrl: redis?.url, env: ENV });
    const receiver = await newReceiver();
    const environment = customerOf(server);
    const admin = adminOf(server.url);
    const { webhook, secret } = await admin.createWebhook({
      environment,
      displayName: "a",
      url: receiver.url("/hook"),
    });
    const webhookId = webhook?.id ?? "";
    expect(webhook).toMatchObject({ url: receiver.url("/hook"), state: State.ENABLED });
    const { groups } = grpcClients(server, server.tokens.customer);
    await groups.getUserGroup({ userGroupId: "acme" });
    await groups.updateUserGroup({ userGroupId: "acme", name: "Acme" });
    await admin.createApiToken({ environment, displayName: "b", role: Role.READ });
    await admin.deleteUserGroup({ environment, userGroupId: "acme" });
    const types = ["user_group.created", "user_group.updated", "api_token.created", "user_group.deleted"];
    await waitFor("the events arrive", () => receiver.at("/hook").length === types.length);
    expect(receiver.at("/hook").map(({ type }) => type)).toEqual(types);
    expect(receiver.at("/hook").map(({ data }) => data["user_group_id"])).toEqual(["acme", "acme", undefined, "acme"]);
    expect(receiver.at("/hook")[1]?.data["changed_fields"]).toEqual(["name"]);
    for (const message of receiver.at("/hook")) verify(secret, message);
    for (const { type, body } of receiver.at("/hook")) expect(faultIn(type, body), body).toBeUndefined();
    // The messages contain only ids and names of fields.
    expect(JSON.stringify(receiver.at("/hook").map(({ body }) => body))).not.toMatch(/Acme|ugt_|ugk_/);

    const { secret: next } = await admin.rotateWebhookSecret({ environment, webhookId });
    const test = await admin.testWebhook({ environment, webhookId });
    expect(test).toMatchObject({ outcome: Outcome.DELIVERED, httpStatus: 204 });
    const sent = await waitFor("the test arrives", () =>
      receiver.at("/hook").find(({ type }) => type === "webhook.test"),
    );
    for (const each of [secret, next]) verify(each, sent);
    expect(faultIn(sent.type, sent.body)).toBeUndefined();
    expect((await failureOf(admin.testWebhook({ environment, webhookId }))).reason).toBe("WEBHOOK_TEST_LIMITED");

    const { deliveries } = await admin.listWebhookDeliveries({ environment, webhookId });
    expect(deliveries.find(({ eventType }) => eventType === "user_group.deleted")).toMatchObject({
      ...{ outcome: Outcome.DELIVERED, httpStatus: 204, attempt: 1 },
    });
    expect(await metricsTextOf(server)).toMatch(/^ugs_webhook_attempts_total\{outcome="delivered"\} [1-9]/m);
    const before = receiver.at("/hook").length;
    await admin.redeliverWebhook({ environment, webhookId, startTime: timestampFromMs(0) });
    const isAgain = () =>
      receiver
        .at("/hook")
        .slice(before)
        .some(({ type }) => type === "user_group.deleted");
    await waitFor("the events arrive again", isAgain);
    await admin.deleteWebhook({ environment, webhookId });
    expect((await failureOf(admin.getWebhook({ environment, webhookId }))).reason).toBe("WEBHOOK_NOT_FOUND");
    const { auditEvents } = await admin.listAuditEvents({ environment, method: "DeleteWebhook" });
    expect(auditEvents).toMatchObject([{ webhookId, actorId: "root" }]);
    // Neither the secrets nor the URL are logged.
    expect(server.output()).not.toContain(secret.slice(6, 30));
    expect(server.output()).not.toContain(receiver.url());
  });

  it("a webhook is refused if its URL or an event type is invalid, and the error states the rule", async () => {
    const server = await newServer({ runtime, env: ADMIN_ENV });
    const admin = adminOf(server.url);
    const environment = customerOf(server);
    const faultOf = async (url: string, eventTypes: string[] = []) => {
      const call = admin.createWebhook({ environment, displayName: "a", url, eventTypes });
      return ConnectError.from(
        await call.then(
          () => undefined,
          (thrown: unknown) => thrown,
        ),
      ).rawMessage;
    };
    for (const url of ["http://example.com/", "http://localhost:1/", "ftp://example.com", "file:///etc/passwd"])
      expect(await faultOf(url)).toContain("the URL of a webhook must start with https://");
    expect(await faultOf("example.com")).toContain("the URL of a webhook must be a URL");
    for (const host of [
      "127.0.0.1",
      "169.254.169.254",
      "10.1.2.3",
      "0x7f.1",
      "[::1]",
      "[::ffff:10.0.0.1]",
      "100.64.0.1",
    ])
      expect(await faultOf(`https://${host}/`)).toContain(
        "the URL of a webhook must not contain a private or reserved address",
      );
    expect(await faultOf("https://user:pass@example.com/")).toContain(
      "the URL of a webhook must not contain a user name",
    );
    expect(await faultOf("https://example.com/#a")).toContain("the URL of a webhook must not contain a fragment");
    expect(await faultOf("https://example.com/", ["user_group.created", "x"])).toContain("event_types may contain");
    // The service looks up a host name only when it sends a message. So it accepts the two URLs below, although the
    // first host name has no address, and the second host name has a loopback address.
    const { webhook } = await admin.createWebhook({ environment, displayName: "a", url: "https://webhooks.invalid/" });
    const test = await admin.testWebhook({ environment, webhookId: webhook?.id ?? "" });
    expect(test).toMatchObject({ outcome: Outcome.NAME, httpStatus: 0 });
    const { webhook: local } = await admin.createWebhook({ environment, displayName: "a", url: "https://localhost/" });
    expect(local?.state).toBe(State.ENABLED);
  });
});
