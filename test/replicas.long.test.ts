import { forSuite } from "@user-group-service/testing/opened";
import { RUNTIMES } from "@user-group-service/testing/runtime";
import { waitFor } from "@user-group-service/testing/wait";
import { afterEach, beforeAll, describe, expect, it } from "vitest";
import type { StoreClient } from "../src/store/connection/client.ts";
import { FIELD } from "../src/store/groups/group-record.ts";
import { openRedis } from "./support/open-redis.ts";
import { describeWithRedis, newServer, suiteRedis } from "./support/opened.ts";
import type { TestRedis } from "./support/redis.ts";
import { redisOf } from "./support/redis-of.ts";
import { failureOf, grpcClients, succeeds } from "./support/rpc.ts";
import type { TestServer } from "./support/server.ts";
import { groupKeyOf } from "./support/stored-keys.ts";

const TOO_FEW = { code: "Unavailable", reason: "TOO_FEW_REPLICAS" };

describeWithRedis("with MIN_REPLICAS_ACK=1", () => {
  const primary = suiteRedis(["--repl-diskless-sync-delay", "0"]);
  const replica = suiteRedis(() => ["--replicaof", "127.0.0.1", String(primary.port)]);
  const direct = forSuite(
    () => openRedis(primary.url, { timeoutMs: 60_000 }),
    (client) => client.close(),
  );
  beforeAll(() => connected());
  afterEach(async () => {
    replica.thaw();
    await connected();
  });

  async function connected(): Promise<void> {
    await waitFor("the replica is in sync", async () => {
      await redisOf(direct).set("probe", "x");
      return (await redisOf(direct).wait(1, 500)) === 1;
    });
  }

  describe.each(RUNTIMES)("a server on %s", (runtime) => {
    let server: TestServer;
    const start = async (REDIS_TIMEOUT = "2s") => {
      server = await newServer({ runtime, redisUrl: primary.url, env: { MIN_REPLICAS_ACK: "1", REDIS_TIMEOUT } });
      return grpcClients(server);
    };

    it("acknowledges changes after the replica has received them", async () => {
      const { groups } = await start();
      const { userGroup } = await groups.getUserGroup({ userGroupId: "a" });
      await groups.updateUserGroup({ userGroupId: "a", name: "N" });
      const group = { case: "currentToken", value: userGroup?.token ?? "" } as const;
      const { userGroup: rotated } = await groups.rotateUserGroupToken({ group });
      await groups.rotateUserGroupToken({
        group: { case: "currentToken", value: rotated?.token ?? "" },
        requestId: "r",
      });
      const offsets = await Promise.all([redisOf(direct).info("replication"), replicaInfo(replica)]);
      const [ofPrimary, ofReplica] = offsets.map((info) =>
        Number(/(?:master|slave)_repl_offset:(\d+)/.exec(info)?.[1]),
      );
      expect(ofReplica).toBeGreaterThan(0);
      expect(ofReplica).toBeGreaterThanOrEqual(ofPrimary ?? Number.NaN);
    });

    it("logs a warning if the primary accepts changes without replicas, but not if the primary refuses such changes", async () => {
      const warning = /min-replicas-to-write is 0: .*Set min-replicas-to-write to 1/;
      const warned = () => server.log().some(({ level, msg }) => level === "warn" && warning.test(msg));
      await start();
      expect(warned()).toBe(true);
      await redisOf(direct).config("SET", "min-replicas-to-write", "1");
      await start();
      await redisOf(direct).config("SET", "min-replicas-to-write", "0");
      expect(warned()).toBe(false);
    });

    it("does not acknowledge changes while the replica is frozen, and still serves reads", async () => {
      const { groups, viewers } = await start();
      const { userGroup } = await groups.getUserGroup({ userGroupId: "a" });
      const token = userGroup?.token ?? "";
      replica.freeze();
      expect(await failureOf(groups.updateUserGroup({ userGroupId: "a", name: "N" }))).toEqual(TOO_FEW);
      expect(await failureOf(groups.getUserGroup({ userGroupId: "new" }))).toEqual(TOO_FEW);
      expect((await viewers.resolveViewer({ token })).name).toBe("N");
      expect((await groups.getUserGroup({ userGroupId: "a" })).newUserGroup).toBe(false);
      const group = { case: "currentToken", value: token } as const;
      expect(await failureOf(groups.rotateUserGroupToken({ group }))).toEqual(TOO_FEW);
      // The error TOO_FEW_REPLICAS means that the master has made the change. So the old token is not found.
      expect(await failureOf(viewers.resolveViewer({ token }))).toMatchObject({ reason: "TOKEN_NOT_FOUND" });
      replica.thaw();
      await connected();
      const { userGroup: after } = await groups.updateUserGroup({ userGroupId: "a", name: "M" });
      expect((await viewers.resolveViewer({ token: after?.token ?? "" })).name).toBe("M");
    });

    it("reports TOO_FEW_REPLICAS only if the change was committed", async () => {
      const { groups, viewers } = await start();
      const { userGroup } = await groups.getUserGroup({ userGroupId: "a" });
      const token = userGroup?.token ?? "";
      const rotation = { group: { case: "currentToken", value: token }, requestId: "r" } as const;
      replica.freeze();
      expect(await failureOf(groups.rotateUserGroupToken(rotation))).toEqual(TOO_FEW);
      expect(await failureOf(viewers.resolveViewer({ token }))).toMatchObject({ reason: "TOKEN_NOT_FOUND" });
      // A call without a change does not wait for the replica.
      expect((await groups.getUserGroup({ userGroupId: "a" })).newUserGroup).toBe(false);
      expect(await failureOf(groups.rotateUserGroupToken({ ...rotation, requestId: "" }))).toMatchObject({
        reason: "TOKEN_NOT_FOUND",
      });
      expect(await failureOf(groups.updateUserGroup({ userGroupId: "a", name: "N", etag: "stale" }))).toMatchObject({
        reason: "ETAG_MISMATCH",
      });
      // The replica may not have the change yet. So the service must wait for the replica when the caller repeats the
      // call.
      expect(await failureOf(groups.rotateUserGroupToken(rotation))).toEqual(TOO_FEW);
      replica.thaw();
      await connected();
      const { userGroup: rotated } = await groups.rotateUserGroupToken(rotation);
      expect((await viewers.resolveViewer({ token: rotated?.token ?? "" })).providedId).toBe("a");
    });

    it("sends one WAIT for all changes of an event loop turn", async () => {
      const { groups } = await start();
      const ids = Array.from({ length: 100 }, (_, i) => `many-${i}`);
      await Promise.all(ids.map((userGroupId) => groups.getUserGroup({ userGroupId })));
      const before = await waitsOf(direct);
      await Promise.all(ids.map((userGroupId) => groups.updateUserGroup({ userGroupId, name: "N" })));
      const waits = (await waitsOf(direct)) - before;
      expect(waits).toBeGreaterThan(0);
      expect(waits).toBeLessThan(50);
    });

    it("serves a read while a change waits for the frozen replica", async () => {
      const { groups, viewers } = await start("5s");
      const { userGroup } = await groups.getUserGroup({ userGroupId: "a" });
      replica.freeze();
      let waiting = true;
      const change = failureOf(groups.updateUserGroup({ userGroupId: "a", name: "N" })).finally(() => {
        waiting = false;
      });
      await waitFor("Redis has committed the change", async () => {
        const key = await groupKeyOf(redisOf(direct), server, "a");
        return (await redisOf(direct).hget(key, FIELD.name)) === "N";
      });
      expect((await viewers.resolveViewer({ token: userGroup?.token ?? "" })).name).toBe("N");
      expect(waiting).toBe(true);
      expect(await change).toEqual(TOO_FEW);
    });

    it("reports an error for each waiting change, and recovers", async () => {
      const { groups } = await start();
      const ids = ["a", "b", "c", "d"];
      for (const userGroupId of ids) await groups.getUserGroup({ userGroupId });
      replica.freeze();
      const failures = ids.map((userGroupId) => failureOf(groups.updateUserGroup({ userGroupId, name: "N" })));
      for (const { code } of await Promise.all(failures)) expect(code).toBe("Unavailable");
      replica.thaw();
      await connected();
      await waitFor("changes are acknowledged again", () =>
        succeeds(groups.updateUserGroup({ userGroupId: "a", name: "M" })),
      );
    });
  });
});

async function waitsOf(client: StoreClient): Promise<number> {
  return Number(/cmdstat_wait:calls=(\d+)/.exec(await redisOf(client).info("commandstats"))?.[1] ?? 0);
}

async function replicaInfo(replica: TestRedis): Promise<string> {
  const client = await openRedis(replica.url, { timeoutMs: 60_000 });
  try {
    return await redisOf(client).info("replication");
  } finally {
    client.close();
  }
}
