import { rmSync } from "node:fs";
import { isDeepStrictEqual } from "node:util";
import { http1 } from "@user-group-service/testing/http";
import { RUNTIMES } from "@user-group-service/testing/runtime";
import { freePort, pause, waitFor } from "@user-group-service/testing/wait";
import type { Redis } from "ioredis";
import { expect, it } from "vitest";
import { HealthCheckResponse_ServingStatus as Status } from "../gen/grpc/health/v1/health_pb.ts";
import { describeWithRedis, newOperator, newRedis, newServer } from "./support/opened.ts";
import { healthOf, metricsOf, waitUntilReady } from "./support/operations.ts";
import { ask, DURABLE, type TestRedis } from "./support/redis.ts";
import { failureOf, grpcClients, succeeds } from "./support/rpc.ts";
import type { TestServer } from "./support/server.ts";

/** A state in which Redis answers reads and rejects changes. */
interface Refusal {
  readonly args?: readonly string[];
  readonly cause: RegExp;
  readonly begin: (operator: Redis, redis: TestRedis) => Promise<unknown>;
  readonly end: (operator: Redis, redis: TestRedis) => Promise<unknown>;
}

const REFUSALS: { readonly [what: string]: Refusal } = {
  "its memory is full": {
    cause: /OOM/,
    begin: (operator) => operator.config("SET", "maxmemory", "1"),
    end: (operator) => operator.config("SET", "maxmemory", "0"),
  },
  "it cannot save a snapshot": {
    args: ["--save", "3600 1"],
    cause: /MISCONF/,
    async begin(operator, { folder }) {
      rmSync(folder, { recursive: true });
      await operator.bgsave();
      await waitFor("the snapshot has failed", async () => {
        return (await operator.info("persistence")).includes("rdb_last_bgsave_status:err");
      });
    },
    end: (operator) => operator.config("SET", "save", ""),
  },
  "it is a replica": {
    cause: /READONLY/,
    begin: async (operator) => operator.replicaof("127.0.0.1", await freePort()),
    end: (operator) => operator.replicaof("NO", "ONE"),
  },
  "it has too few replicas": {
    cause: /NOREPLICAS/,
    begin: (operator) => operator.config("SET", "min-replicas-to-write", "1"),
    end: (operator) => operator.config("SET", "min-replicas-to-write", "0"),
  },
};

/** Queries /readyz, the gRPC health service and the metrics. Returns the readiness for reads and for changes. */
async function signalsOf(server: TestServer) {
  const health = healthOf(server);
  const [reads, changes, metrics] = [
    await http1(server.url, "/readyz"),
    await http1(server.url, "/readyz?changes"),
    await metricsOf(server),
  ];
  return {
    paths: [reads, changes].map(({ status, body }) => [status, body.toString()]),
    services: [(await health.check({})).status, (await health.check({ service: "changes" })).status],
    metrics: ["reads", "changes"].map((kind) => metrics("ugs_ready", { kind })),
  };
}

const ALL_WELL = {
  paths: [
    [200, "ok\n"],
    [200, "ok\n"],
  ],
  services: [Status.SERVING, Status.SERVING],
  metrics: [1, 1],
};

describeWithRedis.each(RUNTIMES)("a server on %s", (runtime) => {
  it.each(Object.entries(REFUSALS))(
    "stays ready for reads while Redis refuses changes because %s",
    async (_what, refusal) => {
      const redis = await newRedis(refusal.args);
      const operator = newOperator(redis);
      const server = await newServer({ runtime, redisUrl: redis.url });
      const { groups, viewers } = grpcClients(server);
      const { userGroup } = await groups.getUserGroup({ userGroupId: "a", name: "before" });
      const token = userGroup?.token ?? "";
      await groups.updateUserGroup({ userGroupId: "a", name: "between" });
      const keys = await operator.dbsize();
      expect(await signalsOf(server)).toEqual(ALL_WELL);

      await refusal.begin(operator, redis);
      await waitUntilReady(server, false, "changes");
      expect(await signalsOf(server)).toEqual({
        paths: [
          [200, "ok\n"],
          [503, "changes fail\n"],
        ],
        services: [Status.SERVING, Status.NOT_SERVING],
        metrics: [1, 0],
      });
      const reported = () => server.log().filter(({ msg }) => /ready/.test(msg) && msg !== "Redis connection is ready");
      expect(reported()).toMatchObject([
        { level: "error", msg: "not ready: changes fail", cause: expect.stringMatching(refusal.cause) },
      ]);
      for (const change of [
        () => groups.updateUserGroup({ userGroupId: "a", name: "after" }),
        () => groups.getUserGroup({ userGroupId: "new" }),
        () => groups.rotateUserGroupToken({ group: { case: "userGroupId", value: "a" }, requestId: "r" }),
      ]) {
        expect(await failureOf(change())).toMatchObject({ reason: "STORE_UNAVAILABLE" });
      }
      expect((await groups.getUserGroup({ userGroupId: "a" })).userGroup?.token).toBe(token);
      expect((await viewers.resolveViewer({ token })).providedId).toBe("a");

      await refusal.end(operator, redis);
      await waitUntilReady(server, true, "changes");
      // After a replica is promoted, the worker replaces its connection once more. During that time, the worker may
      // report that it is not ready.
      await waitFor("everything is ready", async () => isDeepStrictEqual(await signalsOf(server), ALL_WELL));
      const lines = reported().map(({ level, msg }) => [level, msg]);
      expect(lines[0]).toEqual(["error", "not ready: changes fail"]);
      expect(lines).toContainEqual(["info", "ready again: changes"]);
      await waitFor("changes succeed", () => succeeds(groups.updateUserGroup({ userGroupId: "a", name: "after" })));
      // The checks must leave no keys in Redis.
      expect(await operator.dbsize()).toBe(keys);
    },
  );

  it("is not ready while Redis is unavailable, and is ready afterwards", async () => {
    // Without `appendfsync always`, a kill could lose the key that identifies the data. The server would then refuse
    // the restarted Redis.
    const redis = await newRedis(DURABLE);
    const server = await newServer({ runtime, redisUrl: redis.url });
    await redis.kill();
    await waitUntilReady(server, false);
    expect(await signalsOf(server)).toEqual({
      paths: [
        [503, "reads fail\n"],
        [503, "changes fail\n"],
      ],
      services: [Status.NOT_SERVING, Status.NOT_SERVING],
      metrics: [0, 0],
    });
    await redis.restart();
    await waitUntilReady(server);
    await waitUntilReady(server, true, "changes");
    expect(await signalsOf(server)).toEqual(ALL_WELL);
  });

  it("is not ready for changes while too few replicas confirm changes", async () => {
    const [primary, replica] = [await newRedis(["--repl-diskless-sync-delay", "0"]), await newRedis()];
    await ask(replica, "REPLICAOF", "127.0.0.1", String(primary.port));
    await waitFor("the replica is in sync", async () => (await ask(primary, "WAIT", "1", "500")) === 1);
    const env = { MIN_REPLICAS_ACK: "1", REDIS_TIMEOUT: "2s" };
    const server = await newServer({ runtime, redisUrl: primary.url, env });
    expect(await signalsOf(server)).toEqual(ALL_WELL);
    await replica.kill();
    await waitUntilReady(server, false, "changes");
    expect((await http1(server.url, "/readyz")).status).toBe(200);
    await replica.restart();
    await ask(replica, "REPLICAOF", "127.0.0.1", String(primary.port));
    await waitUntilReady(server, true, "changes");
  });

  it("sends Redis one check for many probes", async () => {
    const redis = await newRedis();
    const operator = newOperator(redis);
    const server = await newServer({ runtime, redisUrl: redis.url });
    await operator.config("RESETSTAT");
    const began = performance.now();
    const probes = ["/readyz", "/readyz?changes"].flatMap((path) =>
      Array.from({ length: 500 }, () => http1(server.url, path)),
    );
    for (const { status } of await Promise.all(probes)) expect(status).toBe(200);
    // The service sends at most one check of each kind every 100 ms. It sends a few more commands for other purposes.
    const most = 5 + (performance.now() - began) / 100;
    const stats = await operator.info("commandstats");
    const calls = (name: string) => Number(new RegExp(`cmdstat_${name}:calls=(\\d+)`).exec(stats)?.[1] ?? 0);
    expect(calls("get")).toBeGreaterThan(0);
    expect(calls("get")).toBeLessThan(most);
    expect(calls("set")).toBeGreaterThan(0);
    expect(calls("set")).toBeLessThan(most);
  });

  it("serves reads from a demoted Redis, limits reconnects, and is ready after the promotion", async () => {
    const redis = await newRedis();
    const operator = newOperator(redis);
    const server = await newServer({ runtime, redisUrl: redis.url });
    const { groups } = grpcClients(server);
    await groups.getUserGroup({ userGroupId: "a" });
    await operator.replicaof("127.0.0.1", await freePort());
    await waitUntilReady(server, false, "changes");
    const connections = async () =>
      Number(/total_connections_received:(\d+)/.exec(await operator.info("stats"))?.[1] ?? Number.NaN);
    const before = await connections();
    const started = performance.now();
    for (let i = 0; i < 60; i++) {
      expect(await failureOf(groups.updateUserGroup({ userGroupId: "a", name: "N" }))).toMatchObject({
        reason: "STORE_UNAVAILABLE",
      });
      expect((await groups.getUserGroup({ userGroupId: "a" })).newUserGroup).toBe(false);
      await pause(50);
    }
    expect((await http1(server.url, "/readyz")).status).toBe(200);
    // If the server did not limit reconnects, each change would open a connection.
    expect((await connections()) - before).toBeLessThan(10 + (2 * (performance.now() - started)) / 1000);
    await operator.replicaof("NO", "ONE");
    await waitUntilReady(server, true, "changes");
    await waitFor("changes succeed", () => succeeds(groups.updateUserGroup({ userGroupId: "a", name: "N" })));
  });
});
