import { describe, it } from "vitest";
import { keysOf } from "../support/contract/context.ts";
import { planFailover } from "../support/failover.ts";
import { Load, openStores, servedAgain } from "../support/load.ts";
import { describeWithRedis, newCluster, newSentinels } from "../support/opened.ts";
import { ask, type TestRedis } from "../support/redis.ts";
import { pause } from "../support/wait.ts";

/** A shape of Redis under load, and the master of one of its groups. */
interface Shape {
  readonly name: string;
  readonly start: () => Promise<{
    readonly url: string;
    readonly nodes: readonly TestRedis[];
    master(key: string): Promise<TestRedis>;
    whole(): Promise<void>;
  }>;
}

const KEPT = ["--appendonly", "yes", "--appendfsync", "always"];

const SHAPES: readonly Shape[] = [
  { name: "Sentinels", start: () => newSentinels({ downAfterMs: 700, args: KEPT }) },
  {
    name: "a Cluster",
    start: async () => {
      const cluster = await newCluster(1000, () => KEPT);
      return { ...cluster, master: cluster.masterOf };
    },
  },
];

describeWithRedis.each(SHAPES)("with $name", ({ start }) => {
  /** Has a load go on while something happens; nothing acknowledged may be lost, and calls must be served after it. */
  async function under(
    fault: (parts: { redis: Awaited<ReturnType<Shape["start"]>>; key: string; load: Load }) => Promise<void>,
  ): Promise<void> {
    const redis = await start();
    const load = new Load({ stores: await openStores(redis) });
    await load.start();
    await servedAgain(load);
    await fault({ redis, key: keysOf(load.environment, "group 0").group, load });
    await servedAgain(load);
    await redis.whole();
    await servedAgain(load);
    await load.stop();
    console.log(load.counts, load.causes);
  }

  it.each([300, 5000])("a master that hangs for %i ms", (ms) =>
    under(async ({ redis, key }) => {
      const master = await redis.master(key);
      master.freeze();
      await pause(ms);
      master.thaw();
    }),
  );

  it("connections that are ended again and again", () =>
    under(async ({ redis }) => {
      for (let round = 0; round < 20; round++) {
        await Promise.all(redis.nodes.map((node) => ask(node, "CLIENT", "KILL", "TYPE", "normal")));
        await pause(200);
      }
    }));

  it("a master that pauses changes", () =>
    under(async ({ redis, key }) => {
      for (let round = 0; round < 5; round++) {
        await ask(await redis.master(key), "CLIENT", "PAUSE", "600", "WRITE");
        await pause(1000);
      }
    }));

  it("a replica that hangs", () =>
    under(async ({ redis, key }) => {
      const master = await redis.master(key);
      const replicas = redis.nodes.filter((node) => node !== master).slice(-2);
      for (const replica of replicas) replica.freeze();
      await pause(400);
      for (const replica of replicas) replica.thaw();
    }));

  it("all nodes killed at once and started again", () =>
    under(async ({ redis }) => {
      await Promise.all(redis.nodes.map((node) => node.kill()));
      await pause(300);
      await Promise.all(redis.nodes.map((node) => node.restart()));
      await redis.whole();
    }));
});

describeWithRedis("with Sentinels", () => {
  describe("that replace a master that is well", () => {
    // It goes on for a moment, and so does a replica of it that is not the new master.
    it("loses nothing that both replicas have confirmed", async () => {
      const sentinels = await newSentinels();
      const load = new Load({ stores: await openStores(sentinels, 2) });
      await load.start();
      const old = await sentinels.master();
      await planFailover(sentinels.failOver, async () => (await sentinels.master()) !== old);
      await servedAgain(load);
      await sentinels.whole();
      await load.stop();
    });
  });
});
