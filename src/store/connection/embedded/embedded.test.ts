import { waitFor } from "@user-group-service/testing/wait";
import { expect, it } from "vitest";
import { redisOf } from "../../../../test/support/redis-of.ts";
import { send } from "../client.ts";
import { defineScript } from "../script.ts";
import { openEmbedded } from "./embedded.ts";

const DEADLINE = String(Date.now() + 3_600_000);

it.each<[end: string, start: string, count: number, expected: readonly string[]]>([
  ["(11-0", "0", 9, ["10-0", "6-0", "5-0"]],
  ["(11-0", "0", 2, ["10-0", "6-0"]],
  ["(11-0", "6", 9, ["10-0", "6-0"]],
  ["(10-0", "0", 9, ["6-0", "5-0"]],
  ["(10-0", "6", 9, ["6-0"]],
  ["(5-0", "0", 9, []],
  ["(11-0", "11", 9, []],
])("XREVRANGE from %s to %s with COUNT %i returns the events in this range", async (end, start, count, expected) => {
  const client = await openEmbedded({ timeoutMs: 60_000 });
  for (const id of ["5-0", "6-0", "10-0"]) await redisOf(client).xadd("k", id, "field", `of ${id}`);
  const events = await client.run("list", "xrevrange", ["k", end, start, "COUNT", count]);
  expect(events).toEqual(expected.map((id) => [id, ["field", `of ${id}`]]));
  client.close();
});

it("XADD refuses an event that is not later than the last event, and XTRIM removes the oldest events", async () => {
  const client = await openEmbedded({ timeoutMs: 60_000 });
  const redis = redisOf(client);
  for (const id of ["5-0", "6-0", "10-0"]) await redis.xadd("k", id, "field", "value");
  for (const id of ["10-0", "9-0"]) await expect(redis.xadd("k", id, "field", "value")).rejects.toThrow("ERR");
  expect(await redis.xtrim("k", "MAXLEN", "~", 2)).toBe(1);
  expect(await redis.xtrim("k", "MAXLEN", "~", 2)).toBe(0);
  const events = await client.run("list", "xrevrange", ["k", "(11-0", "0", "COUNT", 9]);
  expect(events.map(([id]) => id)).toEqual(["10-0", "6-0"]);
  client.close();
});

it("ZRANGEBYLEX returns members in the order of their bytes", async () => {
  const client = await openEmbedded({ timeoutMs: 60_000 });
  // In UTF-16, the last member has lower code units than the member before it.
  const members = ["a", "ab", "b", "\uffee", "\u{1f600}"];
  await redisOf(client).zadd("k", ...members.toReversed().flatMap((member) => ["0", member]));
  const range = (min: string, max: string, count = 9) =>
    client.run("list", "zrangebylex", ["k", min, max, "LIMIT", 0, count]);
  expect(await range("-", "+")).toEqual(members);
  expect(await range("-", "+", 4)).toEqual(members.slice(0, 4));
  expect(await range("[ab", "[\uffee")).toEqual(["ab", "b", "\uffee"]);
  expect(await range("(ab", "(\uffee")).toEqual(["b"]);
  client.close();
});

it("no other command runs between the commands of a script", async () => {
  const client = await openEmbedded({ timeoutMs: 60_000 });
  const redis = redisOf(client);
  const add = defineScript(
    "change",
    `local seen = tonumber(redis.call('GET', key) or '0')
for i = 1, 10 do redis.call('EXISTS', key) end
redis.call('SET', key, string.format('%.0f', seen + 1))
redis.call('SET', key, string.format('%.0f', seen + 2))
return {'done', nowText}`,
    { keys: "key" },
  );
  const seen = await Promise.all(
    Array.from({ length: 50 }, (_, i) => {
      send(redis, add, ["1", "k", DEADLINE]);
      return i % 2 === 0 ? redis.get("k") : redis.hmget("none", "f").then(() => redis.get("k"));
    }),
  );
  expect(seen.filter((value) => Number(value) % 2 !== 0)).toEqual([]);
  expect(await redis.get("k")).toBe("100");
  client.close();
});

it("no key expires while a script runs", async () => {
  const client = await openEmbedded({ timeoutMs: 60_000 });
  const redis = redisOf(client);
  const note = defineScript(
    "change",
    `if not redis.call('HGET', key, 'id') then return {'missing', nowText} end
for i = 1, 100 do redis.call('EXISTS', 'other') end
redis.call('HSET', key, 'noted', '1')
return {'noted', nowText}`,
    { keys: "key" },
  );
  for (let leftMs = 1; leftMs <= 10; leftMs++) {
    await redis.hset("k", { id: "1" });
    await redis.pexpire("k", leftMs);
    await send(redis, note, ["1", "k", DEADLINE]);
    await waitFor("the key has expired", async () => (await redis.pttl("k")) < 0);
    expect(await redis.hgetall("k")).toEqual({});
  }
  client.close();
});
