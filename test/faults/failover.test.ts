import { expect, it } from "vitest";
import { keysOf, newEnvironment, newGroup, RING } from "../support/contract/context.ts";
import { failOverByScript } from "../support/failover.ts";
import { Load, openStores, servedAgain } from "../support/load.ts";
import { describeWithRedis, newCluster, newSentinels, newStoreClient } from "../support/opened.ts";
import { ask } from "../support/redis.ts";
import { TestUserGroups } from "../support/stores.ts";
import { pause, waitFor } from "../support/wait.ts";

describeWithRedis("Sentinels", () => {
  it("replace a master that is killed, and nothing acknowledged is lost", async () => {
    const sentinels = await newSentinels({ downAfterMs: 700 });
    const load = new Load({ stores: await openStores(sentinels) });
    await load.start();
    await servedAgain(load);
    const old = await sentinels.master();
    await old.kill();
    await waitFor("another is the master", async () => (await sentinels.master()) !== old);
    const word = performance.now();
    const before = load.answered();
    await waitFor("a call is answered again", () => load.answered() > before + 20);
    expect(performance.now() - word).toBeLessThan(5000);
    await old.restart();
    await servedAgain(load);
    await load.stop();
  });

  it("are believed at once when a master hangs, which no connection tells", async () => {
    const sentinels = await newSentinels({ downAfterMs: 700 });
    // So long is a connection believed that says nothing.
    const client = await newStoreClient(sentinels, { timeoutMs: 40_000 });
    const store = new TestUserGroups(client, RING);
    const environment = newEnvironment();
    await store.getOrCreate(environment, newGroup("a"));
    const old = await sentinels.master();
    old.freeze();
    await waitFor("another is the master", async () => (await sentinels.master()) !== old);
    let isMade = false;
    await waitFor(
      "a change is made",
      () => {
        store.update(environment, "a", { name: "N" }).then(
          () => {
            isMade = true;
          },
          () => {},
        );
        return isMade;
      },
      5000,
    );
  });

  it.each([0, 1])(
    "replace a master that is well by the operators' script, and nothing is lost that %i replicas have confirmed",
    async (minReplicas) => {
      const sentinels = await newSentinels();
      const load = new Load({ stores: await openStores(sentinels, minReplicas) });
      await load.start();
      for (let round = 0; round < 3; round++) {
        await servedAgain(load);
        const old = await sentinels.master();
        const { code, output } = await failOverByScript(sentinels.url);
        expect({ code, output }).toMatchObject({ code: 0, output: expect.stringMatching(/\+switch-master.*\n.*done/) });
        expect(await sentinels.master()).not.toBe(old);
        await servedAgain(load);
        await sentinels.whole();
      }
      await load.stop();
    },
  );

  it("are not asked by the script to replace a master that they do not know, or that no replica can follow", async () => {
    const sentinels = await newSentinels();
    expect(await failOverByScript(sentinels.url, "another")).toMatchObject({
      code: 1,
      output: expect.stringMatching(/knows no master another/),
    });
    const master = await sentinels.master();
    await Promise.all(sentinels.nodes.filter((node) => node !== master).map((node) => node.kill()));
    await waitFor("the master has no replica", async () =>
      String(await ask(master, "INFO", "replication")).includes("connected_slaves:0"),
    );
    expect(await failOverByScript(sentinels.url)).toMatchObject({
      code: 1,
      output: expect.stringMatching(/has no replica that is online/),
    });
    expect(await ask(master, "SET", "still", "taken")).toBe("OK");
  });

  it("may be away while the master is there, also for new connections to it", async () => {
    const sentinels = await newSentinels();
    const [store] = (await openStores(sentinels)) as [TestUserGroups];
    const environment = newEnvironment();
    await store.getOrCreate(environment, newGroup("a"));
    const master = await sentinels.master();
    await sentinels.killSentinels();
    await pause(500);
    await store.update(environment, "a", { name: "N" });
    await ask(master, "CLIENT", "KILL", "TYPE", "normal");
    await waitFor("a change is made", () =>
      store.update(environment, "a", { name: "M" }).then(
        () => true,
        () => false,
      ),
    );
  });
});

describeWithRedis("a Cluster", () => {
  it("replaces a master that is killed, and nothing acknowledged is lost", async () => {
    const cluster = await newCluster(1000);
    const load = new Load({ stores: await openStores(cluster) });
    await load.start();
    await servedAgain(load);
    const key = keysOf(load.environment, "group 0").group;
    const old = await cluster.masterOf(key);
    await old.kill();
    await waitFor("another is the master", async () => (await cluster.masterOf(key)) !== old);
    await servedAgain(load);
    await old.restart();
    await cluster.whole();
    await servedAgain(load);
    await load.stop();
  });
});
