import { closeLater } from "@user-group-service/testing/opened";
import { RUNTIMES } from "@user-group-service/testing/runtime";
import { waitFor } from "@user-group-service/testing/wait";
import { expect, it } from "vitest";
import { HealthCheckResponse_ServingStatus as Status } from "../gen/grpc/health/v1/health_pb.ts";
import { describeWithRedis, newRedis, newServer } from "./support/opened.ts";
import { healthOf, waitUntilReady } from "./support/operations.ts";
import { DURABLE, type TestRedis } from "./support/redis.ts";
import { failureOf, grpcClients } from "./support/rpc.ts";
import type { TestServer } from "./support/server.ts";

/** `REDIS_TIMEOUT`, and the extra time that a busy machine may need, in milliseconds. */
const TIMEOUT_MS = 500;
const SLACK_MS = 20_000;

const UNAVAILABLE = { code: "Unavailable", reason: "STORE_UNAVAILABLE" };

async function expectOutage(server: TestServer, token: string): Promise<void> {
  const { groups, viewers } = grpcClients(server);
  const calls = [
    () => groups.getUserGroup({ userGroupId: "a" }),
    () => groups.getUserGroup({ userGroupId: "new" }),
    () => groups.updateUserGroup({ userGroupId: "a", name: "N" }),
    () => groups.rotateUserGroupToken({ group: { case: "currentToken", value: token } }),
    () => groups.rotateUserGroupToken({ group: { case: "userGroupId", value: "a" }, requestId: "r" }),
    () => viewers.resolveViewer({ token }),
  ];
  // First make the calls one by one. Then make them concurrently, because a call must not wait for the other calls.
  for (const call of calls) await expectInTime(call);
  await Promise.all(calls.map(expectInTime));
  const headers = { Authorization: `Token ${server.tokens.customer}` };
  const rest = await fetch(`${server.url}/api/user?user_group_id=a`, { headers });
  expect(rest.status).toBe(503);
  expect(await rest.json()).toMatchObject({ success: 0, error: { reason: "STORE_UNAVAILABLE" } });
  // The service caches its readiness for a moment. So it may still report the readiness from before the outage.
  await waitUntilReady(server, false);
  for (const path of ["/healthz", "/metrics"]) expect((await fetch(`${server.url}${path}`)).status).toBe(200);
  expect(await healthOf(server).check({})).toMatchObject({ status: Status.NOT_SERVING });
}

async function expectInTime(call: () => Promise<unknown>): Promise<void> {
  const started = performance.now();
  expect(await failureOf(call())).toEqual(UNAVAILABLE);
  expect(performance.now() - started).toBeLessThan(TIMEOUT_MS + SLACK_MS);
}

async function expectRecovery(server: TestServer): Promise<void> {
  await waitUntilReady(server);
  expect(await healthOf(server).check({})).toMatchObject({ status: Status.SERVING });
  const { groups, viewers } = grpcClients(server);
  // On a busy machine, a first call may still exceed `REDIS_TIMEOUT`.
  const { userGroup } = await waitFor("calls succeed", () =>
    groups.getUserGroup({ userGroupId: "a" }).catch(() => undefined),
  );
  expect((await viewers.resolveViewer({ token: userGroup?.token ?? "" })).providedId).toBe("a");
  // The process was not restarted.
  expect(() => process.kill(server.pid, 0)).not.toThrow();
  expect(server.log().filter(({ msg }) => msg === "listening")).toHaveLength(1);
}

describeWithRedis.each(RUNTIMES)("a server on %s", (runtime) => {
  const start = (redis: TestRedis) =>
    newServer({ runtime, redisUrl: redis.url, env: { REDIS_TIMEOUT: `${TIMEOUT_MS}ms` } });

  it.each([
    ["down", (redis: TestRedis) => redis.kill(), (redis: TestRedis) => redis.restart()],
    ["frozen", (redis: TestRedis) => redis.freeze(), (redis: TestRedis) => redis.thaw()],
  ] as const)("rejects calls while Redis is %s, and recovers afterwards", async (_state, end, begin) => {
    const redis = await newRedis(DURABLE);
    const server = await start(redis);
    const { userGroup } = await grpcClients(server).groups.getUserGroup({ userGroupId: "a" });
    for (let round = 0; round < 2; round++) {
      await end(redis);
      await expectOutage(server, userGroup?.token ?? "");
      await begin(redis);
      await expectRecovery(server);
    }
  });

  it("reports the start and the end of an outage to a watcher of the health service", async () => {
    const redis = await newRedis(DURABLE);
    const server = await start(redis);
    const abort = new AbortController();
    closeLater(() => abort.abort());
    const health = healthOf(server);
    const seen: Status[] = [];
    const watching = (async () => {
      for await (const { status } of health.watch({}, { signal: abort.signal })) seen.push(status);
    })().catch(() => {});
    await waitFor("the watcher receives SERVING", () => seen.at(-1) === Status.SERVING);
    await redis.kill();
    await waitFor("the watcher receives NOT_SERVING", () => seen.at(-1) === Status.NOT_SERVING);
    await redis.restart();
    await waitFor("the watcher receives SERVING again", () => seen.at(-1) === Status.SERVING);
    expect(seen).toEqual([Status.SERVING, Status.NOT_SERVING, Status.SERVING]);
    abort.abort();
    await watching;
  });
});
