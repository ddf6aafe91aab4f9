import type { Redis } from "ioredis";
import { StoreClient, type StoreClientOptions } from "../client.ts";
import { readClock } from "../clock.ts";
import type { CommandName } from "../commands.ts";
import type { ScriptedRedis, StoreConnection } from "../connection.ts";
import { StoreNode, singleNode } from "../nodes.ts";
import type { Script } from "../script.ts";
import { luaCompiler } from "./lua.ts";

const PLAIN_COMMANDS = Object.keys({
  get: true,
  hgetall: true,
  hmget: true,
  zcard: true,
  zrangebylex: true,
  xrevrange: true,
} satisfies Record<CommandName, true>);

type MockCommand = (...args: readonly never[]) => Promise<unknown>;

/** Opens a new and empty store in the memory of this process. */
export async function openEmbedded(options: StoreClientOptions): Promise<StoreClient> {
  const [{ default: RedisMock }, { default: fengari }] = await Promise.all([import("ioredis-mock"), import("fengari")]);
  // Use a new host name for each store, because mocks with the same host name share their data.
  const redis = new RedisMock({ host: crypto.randomUUID() }) as unknown as ScriptedRedis;
  const expiry = expiryOf(redis);
  const streams = streamsOf(redis);
  const emulated = { time, zrangebylex: rangeByBytes(redis), ...streams, ...expiry.commands };
  const commands: Record<string, MockCommand | undefined> = { ...(redis as object), ...emulated };
  Object.assign(redis, emulated);
  const compile = luaCompiler(fengari, async (name, args) => {
    const command = commands[name];
    if (!command) throw new Error(`ERR the embedded store has no command '${name}'`);
    return command(...(args as never[]));
  });
  // A script waits for each of its commands. No other command or script may run until the script has ended.
  let latest: Promise<unknown> = Promise.resolve();
  const inTurn =
    (run: MockCommand): MockCommand =>
    (...args) => {
      // As in Redis, keys expire only before a command or a script starts.
      const answer = latest.then(expiry.removeExpired).then(() => run(...args));
      latest = answer.catch(() => {});
      return answer;
    };
  for (const name of PLAIN_COMMANDS) Object.assign(redis, { [name]: inTurn(commands[name] as MockCommand) });
  redis.runScript = inTurn(({ lua }: Pick<Script, "lua">, [count, ...args]: readonly string[]) =>
    compile(lua)(args.slice(0, Number(count)), args.slice(Number(count))),
  ) as ScriptedRedis["runScript"];
  const connection: StoreConnection = {
    redis,
    clock: await readClock(redis),
    replace: () => {},
    close: () => redis.disconnect(),
  };
  return new StoreClient(singleNode(new StoreNode("embedded", connection)), options);
}

/**
 * Returns commands that replace the expiry commands of the mock. During a script, no key expires between two commands.
 */
function expiryOf(redis: Redis) {
  const ends = new Map<string, number>();
  let next = Number.POSITIVE_INFINITY;
  const del = redis.del.bind(redis);
  const remove = (...keys: string[]) => {
    for (const key of keys) ends.delete(key);
    return del(keys);
  };
  const expireAt = async (key: string, at: string | number) => {
    if ((await redis.exists(key)) === 0) return 0;
    ends.set(key, Number(at));
    next = Math.min(next, Number(at));
    return 1;
  };
  const removeExpired = async (): Promise<void> => {
    const now = Date.now();
    if (now < next) return;
    next = Number.POSITIVE_INFINITY;
    for (const [key, end] of ends) {
      if (end > now) next = Math.min(next, end);
      else await remove(key);
    }
  };
  const commands = {
    del: remove,
    unlink: remove,
    pexpireat: expireAt,
    pexpire: (key: string, ms: string | number) => expireAt(key, Date.now() + Number(ms)),
    persist: async (key: string) => Number(ends.delete(key)),
    async pttl(key: string) {
      if ((await redis.exists(key)) === 0) return -2;
      const end = ends.get(key);
      if (end === undefined) return -1;
      return end > Date.now() ? end - Date.now() : -2;
    },
  };
  return { commands, removeExpired };
}

/** Implements TIME with milliseconds. The mock returns whole seconds. */
async function time(): Promise<[string, string]> {
  const now = Date.now();
  return [`${Math.floor(now / 1000)}`, `${(now % 1000) * 1000}`];
}

/**
 * Implements ZRANGEBYLEX in the order of UTF-8 bytes. The mock uses the order of UTF-16 units, so a page could omit
 * groups.
 */
function rangeByBytes(redis: Redis) {
  const order = (member: string, bound: string, ifExcluded: number) =>
    compareBytes(member, bound.slice(1)) || (bound.startsWith("(") ? ifExcluded : 0);
  return async (key: string, min: string, max: string, _limit?: "LIMIT", _offset?: number, count = Infinity) => {
    const isWithin = (member: string) =>
      (min === "-" || order(member, min, -1) >= 0) && (max === "+" || order(member, max, 1) <= 0);
    return (await redis.zrange(key, 0, -1)).filter(isWithin).sort(compareBytes).slice(0, Number(count));
  };
}

function compareBytes(one: string, other: string): number {
  return Buffer.compare(Buffer.from(one), Buffer.from(other));
}

/**
 * Returns commands that replace the stream commands of the mock. The mock reuses ids after a stream is trimmed, keeps
 * trimmed events in memory, and cannot read from a given id. The embedded store therefore stores a stream as a list.
 * Each element is the id of an event, a space, and the fields of the event in JSON. All ids end with `-0`.
 */
function streamsOf(redis: Redis) {
  return {
    xlen: (key: string) => redis.llen(key),
    async xadd(key: string, id: string, ...fields: string[]) {
      const last = await redis.lindex(key, -1);
      if (last && versionOf(id) <= versionOf(last))
        throw new Error("ERR the id is not above the last id of the stream");
      await redis.rpush(key, `${id} ${JSON.stringify(fields)}`);
      return id;
    },
    async xtrim(key: string, _by: "MAXLEN", _about: "~", length: string) {
      const gone = Math.max((await redis.llen(key)) - Number(length), 0);
      await redis.ltrim(key, gone, -1);
      return gone;
    },
    /** @param start an id without `-0`, or `-`. @param end an id without `-0`, or `+` */
    async xrange(key: string, start: string, end: string, _count: "COUNT", count: string) {
      const [first, last] = [start === "-" ? 0 : Number(start), end === "+" ? Number.POSITIVE_INFINITY : Number(end)];
      const events = await redis.lrange(key, 0, -1);
      const wanted = events.filter((event) => versionOf(event) >= first && versionOf(event) <= last);
      return wanted.slice(0, Number(count)).map(entryOf);
    },
    /** @param end `(` and an id. The result contains only events before this id */
    async xrevrange(key: string, end: string, start: string, _count: "COUNT", count: number) {
      const [first, limit] = [versionOf(start), versionOf(end.slice(1))];
      const events = await redis.lrange(key, 0, -1);
      const wanted = events.filter((event) => versionOf(event) >= first && versionOf(event) < limit).slice(-count);
      return wanted.reverse().map(entryOf);
    },
  };
}

function entryOf(event: string): [string, string[]] {
  const length = event.indexOf(" ");
  return [event.slice(0, length), JSON.parse(event.slice(length))];
}

/** Returns the number before the `-0` of an id. */
function versionOf(event: string): number {
  return Number.parseFloat(event);
}
