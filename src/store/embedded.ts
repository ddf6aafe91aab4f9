import type { Redis } from "ioredis";
import { APPEND, EVENT, EVENT_FIELD, LENGTH } from "./audit.ts";
import { StoreClient, type StoreClientOptions } from "./redis/client.ts";
import { readClock, type ScriptedRedis, type StoreConnection, StoreNode, singleNode } from "./redis/nodes.ts";
import { ALLOW_OOM, TIME } from "./script.ts";
import { LIST_IDS } from "./user-group-admin.ts";

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
  const connection: StoreConnection = {
    redis,
    clock: await readClock(redis),
    losses: 0,
    isSilent: () => false,
    close: () => redis.disconnect(),
  };
  return new StoreClient(singleNode(new StoreNode("embedded", connection)), options);
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
  const after = Buffer.from(from.slice(1));
  const compareIds = (one: string, other: string) => Buffer.compare(Buffer.from(one), Buffer.from(other));
  const isIn = (id: string) => {
    const order = from === "-" ? 1 : Buffer.compare(Buffer.from(id), after);
    return id.startsWith(idPrefix) && (order > 0 || (order === 0 && from.startsWith("[")));
  };
  const ids = (await redis.zrange(key, 0, -1)).filter(isIn).sort(compareIds).slice(0, Number(limit));
  return ["found", String(Date.now()), ...ids];
}

/*
 * The streams of ioredis-mock give an id twice once they are trimmed, keep what is trimmed in memory, and cannot be read
 * from an id on. So the embedded store keeps a stream as a list: the id and the fields of each event in turn.
 */

/** How many elements of the list an event takes. */
export const ELEMENTS = 1 + 2 * Object.keys(EVENT_FIELD).length;

/** What the ids of a call's events begin with, and the number of the event in it. */
const ID = "KEYS[4] .. string.format('%03d', appended)";

/** What stands in a script in place of `LENGTH`. */
const LIST_LENGTH = `redis.call('LLEN', trail) / ${ELEMENTS}`;

/** What stands in a script in place of `APPEND`: it drops what is too old or too many at once. */
const LIST_APPEND = `appended = (appended or 0) + 1
  redis.call('RPUSH', trail, ${ID}, ${EVENT})
  local function is_old(event)
    local id = redis.call('LINDEX', trail, string.format('%.0f', event * ${ELEMENTS}))
    return id and tonumber(string.match(id, '^%d+')) < now - retentionMs
  end
  local gone = 0.0
  while is_old(gone) do gone = gone + 1 end
  dropped = math.max(length + 1.0 - gone - limit, 0)
  redis.call('LTRIM', trail, string.format('%.0f', (gone + dropped) * ${ELEMENTS}), -1)`;

/** XREVRANGE on such a list. @param elements of the list */
export function reverseRange(elements: readonly string[], end: string, start: string, count: number) {
  const events: [string, string[]][] = [];
  for (let at = elements.length - ELEMENTS; at >= 0 && events.length < count; at -= ELEMENTS) {
    const id = elements[at] as string;
    if (isWithin(id, end, start)) events.push([id, elements.slice(at + 1, at + ELEMENTS)]);
  }
  return events;
}

function isWithin(id: string, end: string, start: string): boolean {
  const isBelow = end.startsWith("(") ? compareEvents(id, end.slice(1)) < 0 : compareEvents(id, upTo(end)) <= 0;
  return isBelow && compareEvents(id, start) >= 0;
}

/** The last id of a millisecond, where an id has no second part. */
function upTo(id: string): string {
  return id.includes("-") || id === "+" ? id : `${id}-${Number.MAX_SAFE_INTEGER}`;
}

/** Which of two ids is later: positive when the first is. `+` is later than all. */
function compareEvents(one: string, other: string): number {
  if (other === "+") return -1;
  const [ms = "", sequence = "0"] = one.split("-");
  const [otherMs = "", otherSequence = "0"] = other.split("-");
  return Number(ms) - Number(otherMs) || Number(sequence) - Number(otherSequence);
}
