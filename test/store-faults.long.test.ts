import { rmSync } from "node:fs";
import { timestampNow } from "@bufbuild/protobuf/wkt";
import { ConnectError } from "@connectrpc/connect";
import { waitFor } from "@user-group-service/testing/wait";
import { expect, it } from "vitest";
import { ErrorInfoSchema } from "../gen/google/rpc/error_details_pb.ts";
import { Role } from "../gen/usergroup/admin/v1/api_token_pb.ts";
import { ADMIN_ENV, adminOf, customerOf, issueToken } from "./support/admin.ts";
import { describeWithRedis, newOperator, newRedis, newServer } from "./support/opened.ts";
import { waitForSubscriptions } from "./support/operations.ts";
import type { TestRedis } from "./support/redis.ts";
import { grpcClients } from "./support/rpc.ts";

/**
 * Returns the reason, the cause and the message of a failed call. After Redis has become a replica, the service
 * connects again. So this function repeats the call until the service has connected.
 */
async function reportOf(call: () => Promise<unknown>): Promise<{ reason?: string; cause?: string; message: string }> {
  const error = await call().then(
    () => expect.fail("the call succeeded"),
    (thrown: unknown) => ConnectError.from(thrown),
  );
  const [info] = error.findDetails(ErrorInfoSchema);
  const cause = info?.metadata["cause"];
  if (cause === "not_connected") return reportOf(call);
  return { reason: info?.reason, cause, message: error.rawMessage };
}

async function failToSave(redis: TestRedis): Promise<void> {
  const operator = newOperator(redis);
  rmSync(redis.folder, { recursive: true });
  await operator.config("SET", "save", "3600 1");
  await operator.bgsave();
  await waitFor("Redis rejects changes", () =>
    operator.set("key", "value").then(
      () => false,
      (error: Error) => error.message.startsWith("MISCONF"),
    ),
  );
}

describeWithRedis("an error of an unavailable store", () => {
  it.each<[cause: string, words: string, befall: (redis: TestRedis) => unknown]>([
    ["memory_full", "its memory is full", (redis) => newOperator(redis).config("SET", "maxmemory", "1")],
    ["cannot_save", "it cannot save to disk", failToSave],
    ["read_only", "it is a read-only replica", (redis) => newOperator(redis).replicaof("127.0.0.1", redis.port + 1)],
    ["timeout", "Redis did not answer in time", (redis) => redis.freeze()],
  ])("reports %s to root and admin, and to no other role", async (cause, words, befall) => {
    const redis = await newRedis(["--replica-serve-stale-data", "yes"]);
    // The API tokens stay cached, so the service can authenticate the calls without Redis.
    const env = { ...ADMIN_ENV, REDIS_TIMEOUT: "2s", API_TOKEN_CACHE: "1m" };
    const server = await newServer({ redisUrl: redis.url, env });
    const environment = customerOf(server);
    const admin = adminOf(server.url, (await issueToken(server, "admin")).token);
    // When a worker subscribes to revocations, it clears its cache. So wait for the subscription before the calls that
    // cache the API token.
    await waitForSubscriptions(newOperator(redis), 1);
    await admin.getCaller({});
    await admin.getCaller({});
    const { groups } = grpcClients(server);
    await groups.getUserGroup({ userGroupId: "a" });
    await befall(redis);

    const values = { displayName: "new", role: Role.READ };
    const userGroups = [{ providedId: "new" }];
    const put = {
      method: "PUT",
      headers: { authorization: `Token ${server.tokens.customer}`, "content-type": "application/json" },
      body: JSON.stringify({ user_group_id: "a", name: "N" }),
    };
    const [byRoot, byAdmin, byOther, imported] = await Promise.all([
      reportOf(() => adminOf(server.url).createEnvironment({ environment: { name: "new" } })),
      reportOf(() => admin.createApiToken(values)),
      reportOf(() => groups.updateUserGroup({ userGroupId: "a", name: "N" })),
      admin.importUserGroups({ userGroups, environment, snapshotTime: timestampNow() }),
    ]);
    const overRest = (await fetch(`${server.url}/api/user`, put).then((answer) => answer.json())) as { error: object };
    const reported = { reason: "STORE_UNAVAILABLE", cause, message: expect.stringContaining(words) };
    expect(byRoot).toEqual(reported);
    expect(byAdmin).toEqual(reported);
    const text = "the store is unavailable; try again";
    expect(byOther).toEqual({ reason: "STORE_UNAVAILABLE", cause: undefined, message: text });
    expect(overRest.error).toMatchObject({ reason: "STORE_UNAVAILABLE", message: text });
    expect(overRest.error).not.toHaveProperty("cause");
    expect(imported.results[0]?.failure?.message).toContain("the store is unavailable: ");
  });
});
