import { Redis } from "ioredis";
import { DEFAULT_PARTITIONS, environmentPath, partitionOf } from "../../../src/domain/environment.ts";
import { EVENT_FIELD } from "../../../src/store/audit/audit.ts";
import { tokenDigest } from "../../../src/store/encryption/encryption.ts";
import { FIELD, PIECES } from "../../../src/store/groups/fields.ts";
import { KEY, partitionPrefix } from "../../../src/store/keys.ts";
import type { TestRedis } from "../../support/redis.ts";
import type { StoredEvent } from "../history/audit.ts";
import { sortedBy } from "../history/call.ts";
import type { StoredEnvironment, StoredGroup, StoredPartition } from "../history/stored.ts";

/** How many characters of a digest the index of tokens holds. */
const INDEXED_CHARACTERS = 14;

/** An environment as it is named in Redis. */
export interface NamedEnvironment {
  /** What the histories call it. */
  readonly id: string;
  readonly name: string;
  readonly tag: "Customer" | "Testing";
}

/** Reads what Redis holds of an environment. @param masterOf the node that a key is read at */
export async function readStored(
  masterOf: (key: string) => TestRedis,
  { id, name, tag }: NamedEnvironment,
): Promise<StoredEnvironment> {
  const environment = { name, tag, partitions: DEFAULT_PARTITIONS, number: 0 };
  const prefixes = Array.from({ length: DEFAULT_PARTITIONS }, (_, partition) =>
    partitionPrefix(environment, partition),
  );
  const groups: StoredGroup[] = [];
  const partitions: StoredPartition[] = [];
  const events: StoredEvent[] = [];
  for (const [master, own] of sortedBy(prefixes, masterOf)) {
    const redis = new Redis(master.port, "127.0.0.1").on("error", () => {});
    try {
      // Found by their keys, not by the index that is to be held against them.
      const keys = await keysOf(redis, `ug:{${environmentPath(environment)}/`);
      for (const prefix of own) {
        const ownKeys = keys.filter((key) => key.startsWith(prefix));
        const read = await readPartition(redis, { prefix, partition: prefixes.indexOf(prefix), keys: ownKeys });
        groups.push(...read.groups);
        partitions.push(read.partition);
        events.push(...(await readEvents(redis, prefix)));
      }
    } finally {
      redis.disconnect();
    }
  }
  return {
    environment: id,
    groups,
    partitions,
    events,
    partitionOf: (text) => partitionOf(environment, text),
    indexed: (digest) => digest.slice(0, INDEXED_CHARACTERS),
    digestOf: tokenDigest,
  };
}

async function readPartition(
  redis: Redis,
  { prefix, partition, keys }: { prefix: string; partition: number; keys: readonly string[] },
) {
  const start = prefix + KEY.group;
  const groups = keys
    .filter((key) => key.startsWith(start))
    .map(async (key): Promise<StoredGroup> => {
      const record = await redis.hgetall(key);
      const { [FIELD.teamId]: teamId, [FIELD.digest]: digest = "", [FIELD.graceDigest]: graceDigest } = record;
      const has = { own: record[FIELD.token] !== undefined, foreign: record[`${PIECES.foreignToken}0`] !== undefined };
      return { id: key.slice(start.length), partition, teamId: Number(teamId), digest, has, graceDigest };
    });
  /** Strings by what their keys end with. One that has expired meanwhile is none. */
  const strings = async (beginning: string) => {
    const own = keys.filter((key) => key.startsWith(beginning));
    const read = own.map(async (key) => [key.slice(beginning.length), await redis.get(key)] as const);
    return (await Promise.all(read)).filter((entry): entry is [string, string] => entry[1] !== null);
  };
  const foreign = await strings(prefix + KEY.foreign);
  return {
    groups: await Promise.all(groups),
    partition: {
      partition,
      tokens: new Map(Object.entries(await redis.hgetall(prefix + KEY.tokens))),
      ids: await redis.zrange(prefix + KEY.ids, 0, -1),
      foreign: new Map(foreign.map(([digest, entry]) => [digest, entry.slice(entry.indexOf(":") + 1)])),
      graces: new Map(await strings(`${prefix}grace:`)),
      count: Number((await redis.get(prefix + KEY.teamCount)) ?? 0),
    } satisfies StoredPartition,
  };
}

async function readEvents(redis: Redis, prefix: string): Promise<StoredEvent[]> {
  const streams = [prefix + KEY.audit, prefix + KEY.updatesAudit].map((key) => redis.xrange(key, "-", "+"));
  const events = (await Promise.all(streams)).flat().sort(([one], [other]) => {
    const [[ms = 0, sequence = 0] = [], [otherMs = 0, otherSequence = 0] = []] = [one, other].map((id) =>
      id.split("-").map(Number),
    );
    return ms - otherMs || sequence - otherSequence;
  });
  return events.map(([, fields]) => {
    const value = (field: string) => fields[fields.indexOf(field) + 1] ?? "";
    const { requestId, method, subject } = EVENT_FIELD;
    return { requestId: value(requestId), method: value(method), group: value(subject) };
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
