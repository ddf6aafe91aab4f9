import type { Redis } from "ioredis";
import { APPEND, LENGTH } from "./audit.ts";
import { LIST_APPEND, LIST_LENGTH, reverseRange } from "./embedded-streams.ts";
import { StoreClient, type StoreClientOptions } from "./redis/client.ts";
import { readClock, type ScriptedRedis, type StoreConnection } from "./redis/connection.ts";
import { singleNode } from "./redis/nodes.ts";
import { ALLOW_OOM, TIME } from "./script.ts";
import { compareIds, LIST_IDS } from "./user-group-admin.ts";

/** The embedded store: in the memory of this process, empty at first. */
export async function openEmbedded(options: StoreClientOptions): Promise<StoreClient> {
  const { default: RedisMock } = await import("ioredis-mock");
  // Instances of one host share their data; a name of its own makes this one new.
  const redis = new RedisMock({ host: crypto.randomUUID() }) as unknown as ScriptedRedis;
  // The mock's TIME rounds to seconds, and its microseconds do not belong to that second.
  redis.time = async () => time();
  const define = redis.defineCommand.bind(redis);
  const commands: Record<string, (...args: string[]) => Promise<string[]>> = redis as never;
  const nextEvent = eventIds();
  redis.defineCommand = (name, { lua = "" }) => {
    // Three more keys, which no script uses, carry the time and the beginning of the ids of its events.
    const own = lua
      .replace(ALLOW_OOM, "")
      .replace(TIME, "{KEYS[2], KEYS[3]}")
      .replace(LENGTH, LIST_LENGTH)
      .replace(APPEND, () => LIST_APPEND);
    define(name, { lua: own, numberOfKeys: 4 });
    const run = commands[name]?.bind(redis) as (typeof commands)[string];
    commands[name] =
      name === LIST_IDS.name
        ? (key = "", ...args) => listIds(redis, key, args)
        : (key = "", ...args) => run(key, ...time().map(String), nextEvent(), ...args);
  };
  redis.xrevrange = (async (key: string, end: string, start: string, _count: "COUNT", limit: number) =>
    reverseRange(await redis.lrange(key, 0, -1), end, start, limit)) as never;
  const clock = await readClock(redis);
  const connection: StoreConnection = {
    redis,
    clock: () => clock,
    isReady: () => true,
    isSilent: () => false,
    losses: () => 0,
    close: () => redis.disconnect(),
  };
  const node = { name: "embedded", reads: connection, changes: connection, replicas: undefined };
  return new StoreClient(singleNode(node), options);
}

/** As Redis gives it: seconds since 1970, and microseconds of the next one. */
function time(): [number, number] {
  const now = Date.now();
  return [Math.floor(now / 1000), (now % 1000) * 1000];
}

/** What the ids of a call's events begin with: they never go back, though the clock may, and no two are the same. */
function eventIds(): () => string {
  let [latest, calls] = [0, 0];
  return () => {
    latest = Math.max(latest, Date.now());
    return `${latest}-${++calls}`;
  };
}

/**
 * `LIST_IDS` for the embedded store, whose ZRANGEBYLEX orders by UTF-16 units and not by bytes: a page could skip groups.
 */
async function listIds(redis: Redis, key: string, args: readonly string[]): Promise<string[]> {
  const [from = "", idPrefix = "", limit] = args;
  const after = from.slice(1);
  const isIn = (id: string) => {
    const order = from === "-" ? 1 : compareIds(id, after);
    return id.startsWith(idPrefix) && (order > 0 || (order === 0 && from.startsWith("[")));
  };
  const ids = (await redis.zrange(key, 0, -1)).filter(isIn).sort(compareIds).slice(0, Number(limit));
  return ["found", String(Date.now()), ...ids];
}
