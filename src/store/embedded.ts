import { StoreClient, type StoreClientOptions } from "./client.ts";
import { readClock, type ScriptedRedis, type StoreConnection } from "./connection.ts";
import { listAppend, reverseRange } from "./embedded-streams.ts";
import { SingleNode } from "./nodes.ts";
import { APPEND, EVENT, TIME } from "./script-parts.ts";
import { SCRIPTS } from "./scripts.ts";

/** The embedded store: in the memory of this process, empty at first. */
export async function openEmbedded(options: StoreClientOptions): Promise<StoreClient> {
  const { default: RedisMock } = await import("ioredis-mock");
  // Instances of one host share their data; a name of its own makes this one new.
  const redis = new RedisMock({ host: crypto.randomUUID() }) as unknown as ScriptedRedis;
  // Its own clock counts seconds, rounded, and beside them microseconds of something else.
  redis.time = async () => time();
  const commands: Record<string, (...args: string[]) => Promise<string[]>> = redis as never;
  let calls = 0;
  let latest = 0;
  for (const [name, lua] of Object.entries(SCRIPTS)) {
    // The keys that scripts do not look at carry the time, and of what the ids of events are made.
    const own = lua.replace(TIME, "{KEYS[2], KEYS[3]}").replace(APPEND, () => listAppend(EVENT));
    redis.defineCommand(name, { lua: own, numberOfKeys: 5 });
    const run = commands[name]?.bind(redis);
    commands[name] = (key = "", ...args) => {
      // As in Redis, an event is not older than the one before it when the clock goes back.
      latest = Math.max(latest, Date.now());
      return (run as NonNullable<typeof run>)(key, ...[...time(), latest, ++calls].map(String), ...args);
    };
  }
  redis.xrevrange = (async (key: string, end: string, start: string, _count: "COUNT", limit: number) =>
    reverseRange(await redis.lrange(key, 0, -1), end, start, limit)) as never;
  const clock = await readClock(redis);
  const connection: StoreConnection = {
    redis,
    asking: redis,
    clock: () => clock,
    isReady: () => true,
    isSilent: () => false,
    losses: () => 0,
    close: () => redis.disconnect(),
  };
  const node = { name: "embedded", reads: connection, changes: connection, replicas: undefined };
  return new StoreClient(new SingleNode(node), options);
}

/** As Redis gives it: seconds since 1970, and microseconds of the next one. */
function time(): [number, number] {
  const now = Date.now();
  return [Math.floor(now / 1000), (now % 1000) * 1000];
}
