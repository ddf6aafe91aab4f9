import { readFileSync } from "node:fs";
import { createServer } from "node:net";
import { createServer as createTlsServer } from "node:tls";
import { closeLater } from "@user-group-service/testing/opened";
import { RUNTIMES } from "@user-group-service/testing/runtime";
import { freePort, listen, pause, waitFor } from "@user-group-service/testing/wait";
import type { Redis } from "ioredis";
import { expect, it } from "vitest";
import { StoreUnavailable } from "../src/domain/errors.ts";
import { FIELD } from "../src/store/groups/group-record.ts";
import { openRedis } from "./support/open-redis.ts";
import { describeWithRedis, newOperator, newProxy, newRedis, newServer, newStoreClient } from "./support/opened.ts";
import { waitUntilReady } from "./support/operations.ts";
import { grpcClients, succeeds } from "./support/rpc.ts";
import { groupKeyOf } from "./support/stored-keys.ts";

describeWithRedis("replacement of a connection", () => {
  it("a connection that breaks with pending replies is replaced only once, even if its commands time out after the new connection is ready", async () => {
    const redis = await newRedis();
    let ready = 0;
    const client = await newStoreClient(redis, { timeoutMs: 1500, onReady: () => ready++ });
    redis.freeze();
    const lost = succeeds(client.check("reads"));
    await pause(100);
    await redis.kill();
    await redis.restart();
    expect(await lost).toBe(false);
    await waitFor("the connection is ready again", () => ready === 2);
    // Wait for longer than the timeout of the commands on the old connection. This timeout must not break the new
    // connection.
    const end = performance.now() + 2500;
    for (let pings = 0; performance.now() < end; pings++) {
      await client.check("reads").catch((error) => expect.fail(`ping ${pings}: ${error.cause?.message}`));
      await pause(10);
    }
    expect(ready).toBe(2);
  });

  it("a silent connection is replaced repeatedly while Redis does not respond", async () => {
    const redis = await newRedis();
    const errors: string[] = [];
    const client = await newStoreClient(redis, { timeoutMs: 300, onError: ({ message }) => errors.push(message) });
    redis.freeze();
    expect(await succeeds(client.check("reads"))).toBe(false);
    // The kernel still accepts connections for a frozen process.
    await waitFor("two silent connections were closed", () => errors.filter((text) => /300 ms/.test(text)).length > 1);
    redis.thaw();
    await waitFor("the connection is ready again", () => succeeds(client.check("reads")));
  });
});

describeWithRedis("an idle connection", () => {
  it("stays open for longer than the command timeout", async () => {
    const redis = await newRedis();
    let ready = 0;
    const client = await newStoreClient(redis, { timeoutMs: 100, onReady: () => ready++ });
    await pause(700);
    expect(await succeeds(client.check("reads"))).toBe(true);
    expect(ready).toBe(1);
  });
});

describeWithRedis.each(RUNTIMES)("a server on %s", (runtime) => {
  it("uses the new primary after a failover behind a TCP proxy", async () => {
    const [one, two] = [await newRedis(["--repl-diskless-sync-delay", "0"]), await newRedis()];
    const [first, second] = [newOperator(one), newOperator(two)];
    await second.replicaof("127.0.0.1", one.port);
    const proxy = await newProxy(one);
    const server = await newServer({ runtime, redisUrl: proxy.url });
    const { groups } = grpcClients(server);
    await groups.getUserGroup({ userGroupId: "a" });
    const change = (name: string) => groups.updateUserGroup({ userGroupId: "a", name });
    const link = async (replica: Redis) => /master_link_status:up/.test(await replica.info("replication"));
    for (const [primary, replica, port] of [
      [first, second, two],
      [second, first, one],
    ] as const) {
      await waitFor("the replica is in sync", () => link(replica));
      // The proxy opens new connections to the new primary. Existing connections still lead to the old primary, which
      // becomes a replica.
      proxy.switchTo(port.port);
      await primary.call("FAILOVER");
      await waitFor("the roles have changed", async () => (await replica.role())[0] === "master");
      await waitFor("changes succeed again", () => succeeds(change("N")));
      await waitUntilReady(server);
      // On a busy machine, one of the changes may time out.
      await waitFor("a series of changes succeeds", async () => {
        for (let i = 0; i < 20; i++) if (!(await succeeds(change(`name ${i}`)))) return false;
        return true;
      });
      expect((await groups.getUserGroup({ userGroupId: "a" })).userGroup?.name).toBe("name 19");
    }
  });

  it("reads from the new primary after a failover, even if changes use a separate connection", async () => {
    const [one, two] = [await newRedis(["--repl-diskless-sync-delay", "0"]), await newRedis()];
    const [first, second] = [newOperator(one), newOperator(two)];
    await second.replicaof("127.0.0.1", one.port);
    const proxy = await newProxy(one);
    const server = await newServer({ runtime, redisUrl: proxy.url, env: { MIN_REPLICAS_ACK: "1" } });
    const { groups } = grpcClients(server);
    await groups.getUserGroup({ userGroupId: "a" });
    proxy.switchTo(two.port);
    await first.call("FAILOVER");
    await waitFor("the roles have changed", async () => (await second.role())[0] === "master");
    const change = () => groups.updateUserGroup({ userGroupId: "a", name: "after" });
    await waitFor("changes succeed again", () => succeeds(change()));
    // Separate the old primary from the new primary, so that only the new primary receives the name written below.
    await first.replicaof("127.0.0.1", await freePort());
    await second.hset(await groupKeyOf(second, server, "a"), FIELD.name, "of the new primary");
    await waitFor("the group is read from the new primary", async () => {
      return (await groups.getUserGroup({ userGroupId: "a" })).userGroup?.name === "of the new primary";
    });
  });
});

it("openRedis retries after a short delay while Redis loads its data, even if Redis estimates a long loading time", async () => {
  let requested = 0;
  const server = createServer((socket) => {
    socket.on("error", () => {});
    socket.on("data", (data) => {
      const words = data.toString().toLowerCase().split("\r\n");
      for (const [i, word] of words.entries()) {
        if (!word.startsWith("*")) continue;
        const info = ++requested < 4 ? "loading:1\r\nloading_eta_seconds:60\r\n" : "loading:0\r\n";
        if (words[i + 2] === "info") socket.write(`$${info.length}\r\n${info}\r\n`);
        else if (words[i + 2] === "hello") socket.write("*4\r\n+server\r\n+redis\r\n+version\r\n+7.0.0\r\n");
        else if (words[i + 2] === "evalsha") socket.write("*0\r\n");
        else socket.write(words[i + 2] === "time" ? "*2\r\n$1\r\n1\r\n$1\r\n0\r\n" : "+OK\r\n");
        if (words[i + 2] !== "info") requested--;
      }
    });
  });
  const url = `redis://127.0.0.1:${await listen(server)}`;
  closeLater(() => server.close());
  const client = await openRedis(url, { timeoutMs: 1000, connectMs: 20_000 });
  client.close();
  expect(requested).toBe(4);
});

it("openRedis sends the host name in the TLS handshake, and rejects a Redis without a valid certificate", async () => {
  const fixture = (name: string) => readFileSync(new URL(`fixtures/tls/${name}`, import.meta.url));
  const names: string[] = [];
  const server = createTlsServer({
    cert: fixture("cert.pem"),
    key: fixture("key.pem"),
    SNICallback: (name, done) => {
      names.push(name);
      done(null);
    },
  });
  server.on("tlsClientError", () => {});
  const url = `rediss://localhost:${await listen(server)}`;
  closeLater(() => server.close());
  const errors: string[] = [];
  const opening = openRedis(url, { timeoutMs: 1000, connectMs: 2000, onError: ({ message }) => errors.push(message) });
  await expect(opening).rejects.toBeInstanceOf(StoreUnavailable);
  expect(names[0]).toBe("localhost");
  expect(errors.join()).toMatch(/certificate/);
});
