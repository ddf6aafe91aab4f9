import { expect, it } from "vitest";
import { TokenCipher } from "../src/store/encryption.ts";
import { RedisUserGroups } from "../src/store/user-groups.ts";
import { keysOf, newEnvironment, newGroup, RING } from "./support/contract/context.ts";
import { Load } from "./support/load.ts";
import { describeWithRedis, newCluster, newSentinels, newStoreClient } from "./support/opened.ts";
import { ask } from "./support/redis.ts";
import { pause, waitFor } from "./support/wait.ts";

/** Two workers on one Redis, whose changes wait for so many replicas. */
async function openStores(redis: { readonly url: string }, minReplicas = 1): Promise<RedisUserGroups[]> {
  const clients = await Promise.all([1, 2].map(() => newStoreClient(redis, { timeoutMs: 500, minReplicas })));
  return clients.map((client) => new RedisUserGroups({ client, cipher: new TokenCipher(RING) }));
}

const servedAgain = async (load: Load) => {
  const before = load.answered();
  await waitFor("calls are answered again", () => load.answered() > before + 300);
};

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

  it("are followed when they replace a master that is well", async () => {
    // The old master goes on for a moment, and so does a replica of it that is not the new one.
    const sentinels = await newSentinels();
    const load = new Load({ stores: await openStores(sentinels, 2) });
    await load.start();
    const old = await sentinels.master();
    await sentinels.failOver();
    await waitFor("another is the master", async () => (await sentinels.master()) !== old);
    await servedAgain(load);
    await sentinels.whole();
    await load.stop();
  });

  it("may be away while the master is there, also for new connections to it", async () => {
    const sentinels = await newSentinels();
    const [store] = (await openStores(sentinels)) as [RedisUserGroups];
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
