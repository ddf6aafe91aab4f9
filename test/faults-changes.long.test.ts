import { RUNTIMES } from "@user-group-service/testing/runtime";
import { pause, waitFor } from "@user-group-service/testing/wait";
import { expect, it } from "vitest";
import type { StoreClient } from "../src/store/connection/client.ts";
import { FIELD } from "../src/store/groups/group-record.ts";
import { ADD_MEMBER } from "../src/store/scripts.ts";
import { describeWithRedis, newRedis, newServer, newStoreClient } from "./support/opened.ts";
import { waitUntilReady } from "./support/operations.ts";
import { redisOf } from "./support/redis-of.ts";
import { failureOf, grpcClients, succeeds } from "./support/rpc.ts";
import type { TestServer } from "./support/server.ts";
import { groupKeyOf } from "./support/stored-keys.ts";

function storedNames(direct: StoreClient, server: TestServer) {
  return async (id: string) => redisOf(direct).hget(await groupKeyOf(redisOf(direct), server, id), FIELD.name);
}

describeWithRedis.each(RUNTIMES)("failed changes on %s", (runtime) => {
  it("a failed change is not committed when a frozen Redis resumes", async () => {
    const redis = await newRedis();
    const server = await newServer({ runtime, redisUrl: redis.url, env: { REDIS_TIMEOUT: "500ms" } });
    const { groups } = grpcClients(server);
    const { userGroup } = await groups.getUserGroup({ userGroupId: "a", name: "before" });
    for (let round = 0; round < 2; round++) {
      redis.freeze();
      const failures: Promise<unknown>[] = [];
      for (let i = 0; i < 20; i++) {
        const current = { case: "currentToken", value: userGroup?.token ?? "" } as const;
        failures.push(
          failureOf(groups.updateUserGroup({ userGroupId: "a", name: `failed ${i}` })),
          failureOf(groups.rotateUserGroupToken({ group: current })),
          failureOf(groups.rotateUserGroupToken({ group: current, requestId: `r${round}-${i}` })),
          failureOf(groups.getUserGroup({ userGroupId: `new ${i}` })),
        );
        await pause(20);
      }
      for (const failure of await Promise.all(failures)) expect(failure).toMatchObject({ code: "Unavailable" });
      redis.thaw();
      await waitUntilReady(server);
      expect((await groups.getUserGroup({ userGroupId: "a" })).userGroup).toEqual(userGroup);
      const direct = await newStoreClient(redis);
      expect(await redisOf(direct).keys("*:group:new*")).toEqual([]);
      expect(await redisOf(direct).keys("*:request*")).toEqual([]);
    }
  });

  it("a change is not committed after its error is returned, even if earlier changes wait for a frozen replica", async () => {
    const primary = await newRedis(["--repl-diskless-sync-delay", "0"]);
    const replica = await newRedis(["--replicaof", "127.0.0.1", String(primary.port)]);
    const direct = await newStoreClient(primary);
    await waitFor("the replica is up to date", async () => {
      await redisOf(direct).set("probe", "x");
      return (await redisOf(direct).wait(1, 500)) === 1;
    });
    const env = { MIN_REPLICAS_ACK: "1", REDIS_TIMEOUT: "1s" };
    const server = await newServer({ runtime, redisUrl: primary.url, env });
    const { groups } = grpcClients(server);
    const ids = Array.from({ length: 80 }, (_, i) => `group-${i}`);
    await Promise.all(ids.map((userGroupId) => groups.getUserGroup({ userGroupId, name: "before" })));
    const nameOf = storedNames(direct, server);
    replica.freeze();
    const reported = ids.map(async (userGroupId, i) => {
      await pause(50 * i);
      const { reason } = await failureOf(groups.updateUserGroup({ userGroupId, name: "after" }));
      return { userGroupId, reason, name: await nameOf(userGroupId) };
    });
    const outcomes = await Promise.all(reported);
    // This pause is longer than the timeout of WAIT, so every queued WAIT ends before the next step.
    await pause(5000);
    for (const { userGroupId, reason, name } of outcomes) {
      expect(["STORE_UNAVAILABLE", "TOO_FEW_REPLICAS"]).toContain(reason);
      if (reason === "TOO_FEW_REPLICAS") expect(name).toBe("after");
      expect({ userGroupId, name: await nameOf(userGroupId) }).toEqual({ userGroupId, name });
    }
    expect(outcomes.filter(({ reason }) => reason === "TOO_FEW_REPLICAS").length).toBeGreaterThan(0);
    replica.thaw();
    await waitFor("changes are acknowledged again", () =>
      succeeds(groups.updateUserGroup({ userGroupId: "group-0", name: "M" })),
    );
  });
});

describeWithRedis("changes on a broken connection", () => {
  it("a change whose connection breaks is not reported as failed while Redis may still commit it", async () => {
    const redis = await newRedis();
    const client = await newStoreClient(redis, { timeoutMs: 1500 });
    redis.freeze();
    const failure = client.change("add", ADD_MEMBER, { key: "set", member: "member" });
    failure.catch(() => {});
    const reported = failure.then(
      () => "made",
      () => "failed",
    );
    await pause(100);
    redisOf(client).stream.destroy();
    await pause(100);
    const early = await Promise.race([reported, pause(0)]);
    redis.thaw();
    const direct = await newStoreClient(redis);
    await waitFor("Redis has committed the change", () => redisOf(direct).exists("set"));
    expect(early).toBeUndefined();
    expect(await reported).toBe("failed");
  });
});

describeWithRedis("a busy process", () => {
  const block = (ms: number) => {
    const end = performance.now() + ms;
    while (performance.now() < end);
  };

  it("does not report a timeout if Redis has answered in time", async () => {
    const redis = await newRedis();
    const client = await newStoreClient(redis, { timeoutMs: 200 });
    for (let round = 0; round < 5; round++) {
      const answers = Array.from({ length: 50 }, () => client.run("get", "hgetall", ["x"]));
      const ping = client.check("reads");
      // The client sends the commands in the current turn of the event loop. Block the process in a later turn, so that
      // the answers of Redis arrive while the process is busy.
      setImmediate(() => setImmediate(() => block(500)));
      expect(await Promise.all(answers)).toEqual(answers.map(() => ({})));
      await ping;
    }
  });

  it("commits a change although the process was stopped for longer than REDIS_TIMEOUT", async () => {
    const redis = await newRedis();
    const server = await newServer({ redisUrl: redis.url, env: { REDIS_TIMEOUT: "200ms" } });
    const { groups } = grpcClients(server);
    await groups.getUserGroup({ userGroupId: "a" });
    for (let round = 0; round < 3; round++) {
      server.signal("SIGSTOP");
      const change = groups.updateUserGroup({ userGroupId: "a", name: `round ${round}` });
      await pause(500);
      server.signal("SIGCONT");
      expect((await change).userGroup?.name).toBe(`round ${round}`);
    }
  });
});
