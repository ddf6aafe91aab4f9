import { pause, waitFor } from "@user-group-service/testing/wait";
import { expect, it } from "vitest";
import { newGroup, newName, RING } from "../support/contract/context.ts";
import { failOverByScript } from "../support/failover.ts";
import { describeWithRedis, newSentinels, newStoreClient } from "../support/opened.ts";
import { ask } from "../support/redis.ts";
import { succeeds } from "../support/rpc.ts";
import { testEnvironments, testUserGroups } from "../support/stores.ts";

describeWithRedis("failover with Sentinels", () => {
  it("Sentinels replace a hanging master, and the client follows within seconds although its connection to the old master stays open", async () => {
    const sentinels = await newSentinels({ downAfterMs: 700 });
    // This timeout is longer than the time that the test waits for the change. So the client does not close a silent
    // connection in that time.
    const client = await newStoreClient(sentinels, { timeoutMs: 40_000 });
    const store = testUserGroups(client, RING);
    const environment = await testEnvironments(client).create({ name: newName(), tag: undefined });
    await store.getOrCreate(environment, newGroup("a"));
    const old = await sentinels.master();
    old.freeze();
    await waitFor("another node is the master", async () => (await sentinels.master()) !== old);
    let isMade = false;
    await waitFor(
      "a change succeeds",
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

  it("the operators' script sends Sentinels no failover command if the master is unknown or has no replica", async () => {
    const sentinels = await newSentinels();
    expect(await failOverByScript(sentinels.url, "another")).toMatchObject({
      code: 1,
      output: expect.stringMatching(/has no master with the name another/),
    });
    const master = await sentinels.master();
    await Promise.all(sentinels.nodes.filter((node) => node !== master).map((node) => node.kill()));
    await waitFor("the master has no replica", async () =>
      String(await ask(master, "INFO", "replication")).includes("connected_slaves:0"),
    );
    expect(await failOverByScript(sentinels.url)).toMatchObject({
      code: 1,
      output: expect.stringMatching(/has no online replica/),
    });
    expect(await ask(master, "SET", "still", "taken")).toBe("OK");
  });

  it("the client needs no Sentinel to reconnect to the same master", async () => {
    const sentinels = await newSentinels();
    const client = await newStoreClient(sentinels, { timeoutMs: 500, minReplicas: 1 });
    const store = testUserGroups(client, RING);
    const environment = await testEnvironments(client).create({ name: newName(), tag: undefined });
    await store.getOrCreate(environment, newGroup("a"));
    const master = await sentinels.master();
    await sentinels.killSentinels();
    await pause(500);
    await store.update(environment, "a", { name: "N" });
    await ask(master, "CLIENT", "KILL", "TYPE", "normal");
    await waitFor("a change succeeds", () => succeeds(store.update(environment, "a", { name: "M" })));
  });
});
