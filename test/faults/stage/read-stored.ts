import { Redis } from "ioredis";
import { tokenDigest } from "../../../src/store/encryption.ts";
import { FIELD } from "../../../src/store/groups/group-record.ts";
import { ENVIRONMENTS_KEY, environmentKey, environmentPrefix, groupKey, idsKey } from "../../../src/store/keys.ts";
import type { TestRedis } from "../../support/redis.ts";
import { listedNumbers } from "../../support/stored-keys.ts";
import type { StoredEvent } from "../history/audit.ts";
import type { StoredEnvironment, StoredGroup } from "../history/stored.ts";

export interface NamedEnvironment {
  /** Name of the environment in a history. */
  readonly id: string;
  readonly name: string;
  readonly tag: "Customer" | "Testing";
}

/**
 * Reads the number that the Redis keys of an environment contain. Returns 0 if the environment does not exist.
 *
 * @param masterOf returns the node that stores a key
 */
export async function readNumber(masterOf: (key: string) => TestRedis, environment: NamedEnvironment): Promise<number> {
  const numbers = await readAt(masterOf(ENVIRONMENTS_KEY), (redis) => listedNumbers(redis, environment));
  for (const number of numbers) {
    const key = environmentKey(number);
    if ((await readAt(masterOf(key), (redis) => redis.hget(key, "state"))) === "active") return number;
  }
  return 0;
}

/**
 * Reads the contents of an environment from Redis.
 *
 * @param masterOf returns the node that stores a key
 */
export async function readStored(
  masterOf: (key: string) => TestRedis,
  environment: NamedEnvironment,
): Promise<StoredEnvironment> {
  const number = await readNumber(masterOf, environment);
  const prefix = environmentPrefix(number);
  return readAt(masterOf(prefix), async (redis) => {
    // Find the groups by their keys, not in the index, because the check compares the groups with the index.
    const keys = await keysOf(redis, prefix);
    const start = groupKey(number, "");
    const groups = keys
      .filter((key) => key.startsWith(start))
      .map(async (key): Promise<StoredGroup> => {
        const record = await redis.hgetall(key);
        const { [FIELD.teamId]: teamId, [FIELD.digest]: digest = "", [FIELD.graceDigest]: graceDigest } = record;
        const has = { own: record[FIELD.token] !== undefined, foreign: record[FIELD.foreignToken] !== undefined };
        return { id: key.slice(start.length), teamId: Number(teamId), digest, has, graceDigest };
      });
    const buckets = keys.filter((key) => key.startsWith(`${prefix}tokens:`));
    const tokens = await Promise.all(
      buckets.map(async (key) =>
        Object.entries(await redis.hgetall(key)).map(([rest, id]) => [key.slice(-2) + rest, id] as const),
      ),
    );
    return {
      environment: environment.id,
      groups: await Promise.all(groups),
      tokens: new Map(tokens.flat()),
      ids: await redis.zrange(idsKey(number), 0, -1),
      count: Number((await redis.hget(environmentKey(number), "groups")) ?? 0),
      events: await readEvents(
        redis,
        keys.filter((key) => /:(?:events|updates):\d+$/.test(key)),
      ),
      digestOf: tokenDigest,
    };
  });
}

async function readAt<T>(master: TestRedis, read: (redis: Redis) => Promise<T>): Promise<T> {
  const redis = new Redis(master.port, "127.0.0.1").on("error", () => {});
  try {
    return await read(redis);
  } finally {
    redis.disconnect();
  }
}

async function readEvents(redis: Redis, keys: readonly string[]): Promise<StoredEvent[]> {
  const streams = await Promise.all(keys.map((key) => redis.xrange(key, "-", "+")));
  const versionOf = ([id]: readonly [string, unknown]) => Number(id.split("-")[0]);
  const events = streams.flat().sort((one, other) => versionOf(one) - versionOf(other));
  return events.flatMap(([, fields]) => {
    const value = (field: string) => fields[fields.indexOf(field) + 1] ?? "";
    const subject = value("i");
    if (!/^[cg]:/.test(subject)) return [];
    return [{ requestId: value("q"), method: value("m"), group: subject.slice(2) }];
  });
}

async function keysOf(redis: Redis, start: string): Promise<string[]> {
  const found = new Set<string>();
  let cursor = "0";
  do {
    const [next, keys] = await redis.scan(cursor, "MATCH", `${start}*`, "COUNT", 10_000);
    for (const key of keys) found.add(key);
    cursor = next;
  } while (cursor !== "0");
  return [...found];
}
