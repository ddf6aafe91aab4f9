import { forSuite } from "@user-group-service/testing/opened";
import { beforeAll, expect, it } from "vitest";
import type { ChangeBy } from "../src/domain/audit.ts";
import type { Environment } from "../src/domain/environment.ts";
import { newResourceId } from "../src/domain/token.ts";
import { byId, byToken, newEnvironment, newGroup, RING } from "./support/contract/context.ts";
import { openRedis } from "./support/open-redis.ts";
import { describeWithRedis, suiteRedis } from "./support/opened.ts";
import { redisOf } from "./support/redis-of.ts";
import { keysOf, todayKey } from "./support/stored-state.ts";
import { testUserGroups } from "./support/stores.ts";

describeWithRedis("the memory of a group in Redis", () => {
  const redis = suiteRedis();
  const client = forSuite(
    () => openRedis(redis.url, { timeoutMs: 60_000 }),
    (opened) => opened.close(),
  );
  const by = (): ChangeBy => ({
    actorId: newResourceId(),
    actorName: "Back end of Acme",
    role: "manage",
    method: "RotateUserGroupToken",
    requestId: crypto.randomUUID(),
    peer: "203.0.113.255",
  });
  const given = { name: "Group number 123456", mapping: { schema: "source-123456" }, properties: { plan: "pro" } };
  const long = { ...given, properties: { text: "x".repeat(300), more: ["y".repeat(100)] } };
  const key = (environment: Environment) => keysOf(environment, "group-0123456").group;
  const storeOf = (keyId = "k1") =>
    testUserGroups(
      client,
      RING.map((ringKey) => ({ ...ringKey, id: keyId })),
    );

  /** The recommended Redis setting for groups with long values. */
  beforeAll(() => redisOf(client).config("SET", "hash-max-listpack-value", "1024"));

  it.each([
    ["short values", given, "k1", 410],
    ["a long id of the encryption key", given, "k".repeat(32), 480],
    ["properties of several hundred bytes", long, "k1", 900],
  ] as const)("a group with %s stays compact after every change", async (_, values, keyId, bytes) => {
    const environment = await newEnvironment({ name: "acme", tag: "Customer", number: 2 ** 19 }, redisOf(client));
    const store = storeOf(keyId);
    await redisOf(client).del(key(environment));
    const isCompact = async () => {
      expect(await redisOf(client).object("ENCODING", key(environment))).toBe("listpack");
      expect(await redisOf(client).memory("USAGE", key(environment))).toBeLessThanOrEqual(bytes);
    };
    const { group } = await store.getOrCreate(environment, newGroup("group-0123456", values));
    await isCompact();
    await store.update(environment, "group-0123456", { ...values, name: "Group number 654321" });
    await isCompact();
    await store.rotate(environment, byToken(group.token));
    await isCompact();
    await store.rotate(environment, byId("group-0123456", { graceMs: 60_000, requestId: crypto.randomUUID() }));
    await isCompact();
  });

  it("a short group with its indexes needs at most 560 bytes, a long group needs at most 1.9 times its data, and an audit event needs at most 180 bytes", async () => {
    const store = storeOf();
    /**
     * Deletes the events, and then all other keys. Returns the memory that each of the two deletions frees, in bytes.
     * Uses one transaction, because Redis could free buffers between two separate commands.
     */
    const bytesOf = async (events: readonly string[]) => {
      const steps = redisOf(client)
        .multi()
        .info("memory")
        .del(...events)
        .info("memory")
        .flushall("SYNC")
        .info("memory");
      const answers = ((await steps.exec()) ?? []).map(([, answer]) => String(answer));
      const [all = 0, rest = 0, none = 0] = answers.flatMap((answer) => {
        const [, used] = /^used_memory:(\d+)/m.exec(answer) ?? [];
        return used === undefined ? [] : [Number(used)];
      });
      return { events: all - rest, groups: rest - none };
    };
    const grow = async (values: typeof given | typeof long) => {
      await redisOf(client).flushall();
      const environment = await newEnvironment({ name: "acme", tag: "Customer", number: 2 ** 19 }, redisOf(client));
      const ids = Array.from({ length: 4000 }, (_, i) => `group-${String(i).padStart(7, "0")}`);
      const made = await Promise.all(ids.map((id) => store.getOrCreate(environment, newGroup(id, values), by())));
      for (const { group } of made) await store.rotate(environment, byToken(group.token), by());
      const { events, groups } = await bytesOf([todayKey(environment)]);
      // Each group has two events: its creation and its rotation.
      expect(events / (2 * ids.length)).toBeLessThanOrEqual(180);
      return groups / ids.length;
    };
    await redisOf(client).config("SET", "hash-max-listpack-value", "64");
    expect(await grow(given)).toBeLessThanOrEqual(560);
    expect(await grow(long)).toBeLessThanOrEqual(1750);
    await redisOf(client).config("SET", "hash-max-listpack-value", "1024");
    const text = [long.name, JSON.stringify(long.mapping), JSON.stringify(long.properties)].join("");
    // The record also contains the id, a token of 42 characters, a team id and three timestamps.
    expect(await grow(long)).toBeLessThanOrEqual(1.9 * (text.length + 13 + 42 + 16 + 3 * 13));
  });
});
