/** A Redis hash. */
class Hash extends Map<string, string> {}

/** A Redis sorted set whose scores are all 0: its members, in the order of their bytes. */
class SortedSet {
  readonly members: string[] = [];

  /** The index of the first member that is not below `member`. */
  indexOf(member: string): number {
    let [low, high] = [0, this.members.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (compareBytes(this.members[middle] as string, member) < 0) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  has(member: string): boolean {
    return this.members[this.indexOf(member)] === member;
  }

  /** The index at which a range starts, or before which it ends. @param bound `-`, `+`, `[MEMBER` or `(MEMBER` */
  bound(bound: string, isEnd: boolean): number {
    if (bound === "-") return 0;
    if (bound === "+") return this.members.length;
    const member = bound.slice(1);
    const isBehind = bound.startsWith("(") !== isEnd && this.has(member);
    return this.indexOf(member) + (isBehind ? 1 : 0);
  }

  get size(): number {
    return this.members.length;
  }
}

/** A Redis stream. Each event has an id, and fields with their values. All ids end with `-0`. */
class Stream {
  readonly events: [id: string, fields: string[]][] = [];
}

type Value = string | Hash | SortedSet | Stream;

/** A Redis command. It takes strings, and returns the values of RESP. */
export type Command = (...args: readonly string[]) => unknown;

/** The data of the embedded store. */
export interface Memory {
  /** The Redis commands of the service by their names in lower case, and some to inspect the data. */
  readonly commands: Readonly<Record<string, Command>>;
  /** Removes expired keys. As in Redis, no key expires while a script runs. */
  removeExpired(): void;
}

/** Creates empty data in memory, with Redis commands. */
export function newMemory(): Memory {
  const values = new Map<string, Value>();
  /** The expiry times of keys, in milliseconds since 1970. */
  const ends = new Map<string, number>();
  let nextEnd = Number.POSITIVE_INFINITY;

  const remove = (key: string): boolean => {
    ends.delete(key);
    return values.delete(key);
  };
  const removeAll = (...keys: readonly string[]) => keys.filter(remove).length;
  const find = <T extends Value>(key: string, Type: new () => T): T | undefined => {
    const value = values.get(key);
    if (value === undefined || value instanceof Type) return value;
    throw wrongType();
  };
  const open = <T extends Value>(key: string, Type: new () => T): T => {
    const value = find(key, Type) ?? new Type();
    values.set(key, value);
    return value;
  };
  const text = (key: string): string | null => {
    const value = values.get(key) ?? null;
    if (value !== null && typeof value !== "string") throw wrongType();
    return value;
  };
  /** Applies `change` to each item, and returns the number of changes. Removes an empty key, as Redis does. */
  const changeEach = <T extends Hash | SortedSet>(
    key: string,
    Type: new () => T,
    { items, change }: { readonly items: readonly string[]; readonly change: (value: T, item: string) => boolean },
  ): number => {
    const value = open(key, Type);
    const { length } = items.filter((item) => change(value, item));
    if (value.size === 0) remove(key);
    return length;
  };
  const expireAt = (key: string, end: string | number): number => {
    if (!values.has(key)) return 0;
    ends.set(key, Number(end));
    nextEnd = Math.min(nextEnd, Number(end));
    return 1;
  };
  const events = (key: string, start: string, end: string) =>
    (find(key, Stream)?.events ?? []).filter(
      ([id]) =>
        (start === "-" || numberOf(id) >= numberOf(start)) &&
        (end === "+" || (end.startsWith("(") ? numberOf(id) < numberOf(end.slice(1)) : numberOf(id) <= numberOf(end))),
    );

  const commands: Record<string, Command> = {
    time() {
      const now = Date.now();
      return [String(Math.floor(now / 1000)), String((now % 1000) * 1000)];
    },
    publish: () => 0,

    exists: (...keys) => keys.filter((key) => values.has(key)).length,
    del: removeAll,
    unlink: removeAll,
    pexpireat: (key = "", at = "") => expireAt(key, at),
    pexpire: (key = "", ms = "") => expireAt(key, Date.now() + Number(ms)),
    persist: (key = "") => Number(ends.delete(key)),
    pttl: (key = "") => (values.has(key) ? Math.max((ends.get(key) ?? Date.now() - 1) - Date.now(), -1) : -2),

    get: (key = "") => text(key),
    set(key = "", value = "", condition = "") {
      if (condition.toUpperCase() === "XX" && !values.has(key)) return null;
      remove(key);
      values.set(key, value);
      return "OK";
    },

    hget: (key = "", field = "") => find(key, Hash)?.get(field) ?? null,
    hmget: (key = "", ...fields) => fields.map((field) => find(key, Hash)?.get(field) ?? null),
    hgetall: (key = "") => [...(find(key, Hash) ?? [])].flat(),
    hexists: (key = "", field = "") => Number(find(key, Hash)?.has(field) ?? false),
    hlen: (key = "") => find(key, Hash)?.size ?? 0,
    hset(key = "", ...pairs) {
      const hash = open(key, Hash);
      const before = hash.size;
      for (let i = 0; i + 1 < pairs.length; i += 2) hash.set(pairs[i] as string, pairs[i + 1] as string);
      return hash.size - before;
    },
    hdel: (key = "", ...items) => changeEach(key, Hash, { items, change: (hash, field) => hash.delete(field) }),

    zcard: (key = "") => find(key, SortedSet)?.size ?? 0,
    zscore: (key = "", member = "") => (find(key, SortedSet)?.has(member) ? "0" : null),
    zadd: (key = "", ...pairs) =>
      changeEach(key, SortedSet, {
        items: pairs.filter((_, i) => i % 2 === 1),
        change(set, member) {
          if (set.has(member)) return false;
          set.members.splice(set.indexOf(member), 0, member);
          return true;
        },
      }),
    zrem: (key = "", ...items) =>
      changeEach(key, SortedSet, {
        items,
        change: (set, member) => set.has(member) && set.members.splice(set.indexOf(member), 1).length > 0,
      }),
    zrangebylex(key = "", min = "", max = "", _limit = "LIMIT", offset = "0", count = "Infinity") {
      const set = find(key, SortedSet);
      const members = set?.members.slice(set.bound(min, false), set.bound(max, true)) ?? [];
      return members.slice(Number(offset), Number(offset) + Number(count));
    },

    xlen: (key = "") => find(key, Stream)?.events.length ?? 0,
    xadd(key = "", id = "", ...fields) {
      const stream = open(key, Stream);
      const [last] = stream.events.at(-1) ?? ["0-0"];
      if (numberOf(id) <= numberOf(last)) throw refusal("ERR the id is not above the last one of the stream");
      stream.events.push([id, fields]);
      return id;
    },
    /** Only supports MAXLEN. */
    xtrim(key = "", _maxlen = "MAXLEN", _about = "~", most = "") {
      const stream = open(key, Stream);
      return stream.events.splice(0, Math.max(stream.events.length - Number(most), 0)).length;
    },
    xrevrange: (key = "", end = "", start = "", _count = "COUNT", count = "Infinity") =>
      events(key, start, end).reverse().slice(0, Number(count)),

    // Commands to inspect the data.
    keys: (pattern = "*") => [...values.keys()].filter((key) => matches(key, pattern)),
    flushall: () => removeAll(...values.keys()),
    type(key = "") {
      const value = values.get(key);
      if (value === undefined) return "none";
      if (typeof value === "string") return "string";
      return value instanceof Hash ? "hash" : value instanceof SortedSet ? "zset" : "stream";
    },
    zrange: (key = "", _start = "0", _stop = "-1", withScores = "") =>
      (find(key, SortedSet)?.members ?? []).flatMap((member) => (withScores === "" ? [member] : [member, "0"])),
    xrange: (key = "", start = "", end = "") => events(key, start, end),
  };
  return {
    commands,
    removeExpired() {
      const now = Date.now();
      if (now < nextEnd) return;
      nextEnd = Number.POSITIVE_INFINITY;
      for (const [key, end] of ends) {
        if (end > now) nextEnd = Math.min(nextEnd, end);
        else remove(key);
      }
    },
  };
}

/** An error with the name that ioredis gives to errors of Redis. */
export function refusal(message: string): Error {
  return Object.assign(new Error(message), { name: "ReplyError" });
}

function wrongType(): Error {
  return refusal("WRONGTYPE Operation against a key holding the wrong kind of value");
}

/** Redis orders members by bytes. With the order of UTF-16 units, a page could skip members. */
function compareBytes(one: string, other: string): number {
  return one === other ? 0 : Buffer.compare(Buffer.from(one), Buffer.from(other));
}

/** The first number in the id of an event. */
function numberOf(id: string): number {
  return Number.parseInt(id, 10);
}

/** Whether a key matches a pattern. Only `*` is special. */
function matches(key: string, pattern: string): boolean {
  const parts = pattern.split("*").map((part) => part.replace(/[\\^$.|?+()[\]{}]/g, "\\$&"));
  return new RegExp(`^${parts.join(".*")}$`, "s").test(key);
}
