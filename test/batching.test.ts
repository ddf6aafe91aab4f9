import { once } from "node:events";
import { Redis } from "ioredis";
import { afterAll, beforeAll, expect, it } from "vitest";
import { batchWrites } from "../src/store/connection/sockets.ts";
import { describeWithRedis, suiteRedis } from "./support/opened.ts";

describeWithRedis("batches of Redis commands", () => {
  const redis = suiteRedis();
  let client: Redis;

  beforeAll(async () => {
    client = new Redis(redis.url, {
      enableOfflineQueue: false,
      autoResendUnfulfilledCommands: false,
      maxRetriesPerRequest: 0,
      retryStrategy: () => 10,
    });
    batchWrites(client);
    client.on("error", () => {});
    client.defineCommand("echoTwice", { numberOfKeys: 0, lua: "return { ARGV[1], ARGV[1] }" });
    await once(client, "ready");
  });
  afterAll(() => client.disconnect());

  it("commands of one turn of the event loop are sent in one write, and each command receives its own reply", async () => {
    const names = Array.from({ length: 50 }, (_, i) => `name-${i}`);
    for (let round = 0; round < 10; round++) {
      const before = await readsOf(client);
      const answers = await Promise.all(names.map((name) => client.echo(name)));
      expect(answers).toEqual(names);
      // Redis has read from the connection twice: once for all commands together, and once for INFO.
      expect((await readsOf(client)) - before).toBe(2);
    }
  });

  it("scripts, binary values and pipelines can be sent in one write", async () => {
    const scripted = client as Redis & { echoTwice(text: string): Promise<string[]> };
    const binary = Buffer.from([0, 0xff, 13, 10]);
    const [twice, , bytes, piped] = await Promise.all([
      // Redis has not cached this script yet. So ioredis must send the command again, with the text of the script.
      scripted.echoTwice("a"),
      client.set("binary", binary),
      client.getBuffer("binary"),
      client.pipeline().set("piped", "1").get("piped").exec(),
    ]);
    expect(twice).toEqual(["a", "a"]);
    expect(bytes).toEqual(binary);
    expect(piped).toEqual([
      [null, "OK"],
      [null, "1"],
    ]);
  });

  it("commands on a destroyed connection fail, and are not sent on the next connection", async () => {
    const lost = client.set("lost", "1");
    client.stream.destroy();
    await expect(lost).rejects.toThrow();
    await once(client, "ready");
    expect(await client.get("lost")).toBeNull();
    // With the argument true, `disconnect` first sends the buffered data, and then closes the connection.
    const counted = client.incr("count");
    client.disconnect(true);
    expect(await counted).toBe(1);
    await once(client, "ready");
    expect(await client.incr("count")).toBe(2);
  });
});

async function readsOf(client: Redis): Promise<number> {
  return Number(/total_reads_processed:(\d+)/.exec(await client.info("stats"))?.[1]);
}
