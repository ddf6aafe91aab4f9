import { createHash } from "node:crypto";
import { setImmediate as nextTurn } from "node:timers/promises";
import { Command, type Redis } from "ioredis";
import { isAnswerTo, isNotSent, NotConfirmed, type PlainCommands } from "./commands.ts";
import { newRedis, type RedisPlace, redisOptions, setupFault } from "./options.ts";

/** Something that is done at a node. */
export interface NodeCall<T> {
  /** Once it is ended, nothing is done again. */
  readonly isEnded: boolean;
  /** @param asking whether the node is to be asked for a key that is on its way to it (`send`) */
  sendTo(node: StoreNode, asking: boolean): Promise<T>;
}

/** Redis in one of its shapes: which nodes there are, and which of them has a key. */
export interface StoreNodes {
  /**
   * Does something at the node that has a key. When that node redirects to another one, or cannot do it yet, it has
   * done nothing: it is done again there, or later.
   *
   * @throws NotSent when no node can be asked; else what the call throws
   */
  at<T>(key: string, call: NodeCall<T>): Promise<T>;
  /** The nodes that have keys, as far as they are known. */
  masters(): readonly StoreNode[];
  /** A key like `base` that a node has. */
  keyOf(node: StoreNode, base: string): string;
  /** Whether every node is known and connected. */
  isReady(): boolean;
  close(): void;
}

/** How the connections to a node behave, and who is told of them. */
export interface NodeOptions {
  /** How long a call may take, in milliseconds; how long a connection may be silent while answers are awaited. */
  readonly timeoutMs: number;
  /** How many replicas must confirm a change; default 0: none. */
  readonly minReplicas?: number;
  /** How many commands may wait for one node of a Cluster, so that a slow one leaves room for the others. */
  readonly maxWaiting: number;
  /**
   * Checks of a new connection whether Redis can be used: `isCluster` where it leads to a node of a Cluster, `waits` where
   * replicas are waited for. Rejects with StoreMisconfigured when it cannot.
   */
  readonly requireUsable: (
    redis: Redis,
    how: { readonly isCluster: boolean; readonly waits: boolean },
  ) => Promise<void>;
  /** Told of connection errors, at most once per attempt; of StoreMisconfigured when Redis cannot be used as it is. */
  readonly onError: (error: Error) => void;
  /** Told whenever a connection is ready. */
  readonly onReady: () => void;
  /** Told whenever a connection is lost. */
  readonly onClose?: () => void;
}

/** The share of the timeout for which one WAIT may hold up the changes behind it. */
const WAIT_SHARE = 0.8;

/** A node of Redis that makes changes, and the connections to it. */
export class StoreNode {
  /** Where it is, for the log. */
  readonly name: string;
  /** The connection for everything but changes that wait for replicas. */
  readonly reads: StoreConnection;
  /**
   * The connection for changes. It is one of its own when changes wait for replicas, because WAIT delays every later
   * command of its connection.
   */
  readonly changes: StoreConnection;
  /** The connections above, each once. */
  readonly connections: readonly StoreConnection[];
  /** Undefined: replicas are not waited for. */
  readonly replicas: Replicas | undefined;

  constructor(name: string, reads: StoreConnection, replicas?: Replicas) {
    this.name = name;
    this.reads = reads;
    this.changes = replicas?.connection ?? reads;
    this.connections = replicas ? [reads, replicas.connection] : [reads];
    this.replicas = replicas;
  }

  /** Whether commands would be sent now. */
  isReady(): boolean {
    return this.connections.every(({ clock }) => clock !== undefined);
  }

  close(): void {
    for (const connection of this.connections) connection.close();
  }
}

/** Connects to a node. */
export function openNode(name: string, place: RedisPlace, options: NodeOptions): StoreNode {
  const { timeoutMs, minReplicas = 0 } = options;
  const reads = connect(place, options);
  const replicas =
    minReplicas > 0 ? new Replicas(connect(place, options), minReplicas, timeoutMs * WAIT_SHARE) : undefined;
  return new StoreNode(name, reads, replicas);
}

/** Redis with one master: a single node, or one behind Sentinels. @param onClose called when it is closed */
export function singleNode(node: StoreNode, onClose = () => {}): StoreNodes {
  const masters = [node];
  return {
    at: (_key, call) => call.sendTo(node, false),
    masters: () => masters,
    keyOf: (_node, base) => base,
    isReady: () => node.isReady(),
    close() {
      node.close();
      onClose();
    },
  };
}

/**
 * Waits for the replicas of one connection. While a WAIT is under way, Redis looks at no further command of that
 * connection, so there is one at a time. It serves all changes that Redis answered before it was sent; those that are
 * answered later share the next one.
 */
class Replicas {
  readonly connection: StoreConnection;
  readonly #count: number;
  readonly #longestMs: number;
  #currentWait: Promise<unknown> = Promise.resolve();
  #nextWait: Promise<number> | undefined;
  /** How long the callers that share the next WAIT can wait, at the most, in milliseconds. */
  #nextLeftMs = 0;

  /** @param longestMs how long one WAIT may hold up the changes behind it, in milliseconds */
  constructor(connection: StoreConnection, count: number, longestMs: number) {
    this.connection = connection;
    this.#count = count;
    this.#longestMs = longestMs;
  }

  /**
   * Resolves when enough replicas have all changes that Redis answered before this call.
   *
   * @param leftMs how long the caller can wait, in milliseconds
   * @throws NotConfirmed when they have not by then, or it cannot be known
   */
  async confirm(leftMs: number): Promise<void> {
    const { losses } = this.connection;
    this.#nextLeftMs = Math.max(this.#nextLeftMs, leftMs);
    this.#nextWait ??= this.#wait();
    let confirmed: number;
    try {
      confirmed = await this.#nextWait;
    } catch (cause) {
      throw new NotConfirmed(cause);
    }
    if (confirmed < this.#count) throw new NotConfirmed(new Error(`${confirmed} of ${this.#count} confirmed`));
    // A new connection may lead to another Redis: what its replicas confirm says nothing of this change.
    if (losses !== this.connection.losses) throw new NotConfirmed(new Error("connection lost"));
  }

  async #wait(): Promise<number> {
    await this.#currentWait;
    await nextTurn();
    // WAIT takes 0 for no limit.
    const ms = Math.max(Math.ceil(Math.min(this.#nextLeftMs, this.#longestMs)), 1);
    this.#nextLeftMs = 0;
    this.#nextWait = undefined;
    const confirmed = this.connection.redis.wait(this.#count, ms);
    this.#currentWait = confirmed.catch(() => {});
    return confirmed;
  }
}

/** A client of ioredis whose commands include the scripts that `send` has defined. */
export type ScriptedRedis = Redis & PlainCommands;

/** A connection to Redis, which is made anew whenever it is lost. */
export interface StoreConnection {
  readonly redis: ScriptedRedis;
  /** Redis' clock as far as it is known; undefined while nothing can be sent. */
  clock: RedisClock | undefined;
  /** How often it was lost. */
  losses: number;
  /** Whether nothing has come for a while though answers are awaited. */
  isSilent(): boolean;
  close(): void;
}

/** How long a connection may be silent while answers are awaited, at the least, in milliseconds. */
const SHORTEST_SILENCE_MS = 100;

/** How long after ioredis has given up it is told to connect again, in milliseconds. */
const GIVEN_UP_MS = 100;

/** Connects to Redis. */
function connect(place: RedisPlace, options: NodeOptions): StoreConnection {
  const { timeoutMs, minReplicas = 0, requireUsable, onError, onReady, onClose } = options;
  const redis = newRedis(redisOptions(place), () => place.secrets.password) as ScriptedRedis;
  reconnectWhenDemoted(redis);
  batchWrites(redis);
  defineScripts(redis);
  const isSilent = dropWhenSilent(redis, Math.max(timeoutMs, SHORTEST_SILENCE_MS));

  let isClosed = false;
  const connection: StoreConnection = {
    redis,
    clock: undefined,
    losses: 0,
    isSilent,
    close() {
      isClosed = true;
      redis.disconnect();
    },
  };
  const report = (error: Error) => onError(setupFault(error, place) ?? error);
  redis.on("error", (error) => {
    // ioredis would go on with database 0.
    if (isAnswerTo("select", error)) redis.disconnect(true);
    report(error);
  });
  redis.on("close", () => {
    connection.losses++;
    connection.clock = undefined;
    onClose?.();
  });
  redis.on("end", () => {
    // ioredis gives up when its connector fails, or is ended while it looks for the master.
    setTimeout(() => isClosed || redis.connect().catch(() => {}), GIVEN_UP_MS).unref();
  });
  redis.on("ready", async () => {
    const { losses } = connection;
    try {
      const checked = requireUsable(redis, { isCluster: place.shape === "cluster", waits: minReplicas > 0 });
      const asked = readClock(redis).then((clock) => {
        if (connection.losses === losses) connection.clock = clock;
      });
      // When the check fails, its error is reported, not one of the clock that follows from it.
      asked.catch(() => {});
      await checked;
      await asked;
      if (connection.losses === losses) onReady();
    } catch (error) {
      // A connection that was lost meanwhile has reported why.
      if (connection.losses === losses && !isNotSent(error)) report(error as Error);
    }
  });
  return connection;
}

/** Asks Redis for its clock. */
export async function readClock(redis: Redis): Promise<RedisClock> {
  const clock = new RedisClock();
  const asked = performance.now();
  const [seconds, microseconds] = await redis.time();
  clock.learn(Number(seconds) * 1000 + Math.floor(Number(microseconds) / 1000), asked, performance.now());
  return clock;
}

/**
 * Defines scripts as commands of a connection, which cost less than ioredis' own. A script is sent whole until the
 * connection has answered it once, and by its digest from then on.
 */
function defineScripts(redis: Redis): void {
  const known = new Set<string>();
  redis.on("close", () => known.clear());
  const utf8 = { replyEncoding: "utf8" } as const;
  redis.defineCommand = (name, { lua = "" }) => {
    const digest = createHash("sha1").update(lua).digest("hex");
    const run = (...args: string[]): Promise<unknown> => {
      if (!known.has(digest)) {
        const first = redis.sendCommand(new Command("eval", [lua, "1", ...args], utf8)) as Promise<unknown>;
        // A node of a Cluster that redirects the script has not learnt it.
        first.then(
          () => known.add(digest),
          () => {},
        );
        return first;
      }
      const answer = redis.sendCommand(new Command("evalsha", [digest, "1", ...args], utf8)) as Promise<unknown>;
      return answer.catch((error: Error) => {
        if (!error.message.startsWith("NOSCRIPT")) throw error;
        known.delete(digest);
        return run(...args);
      });
    };
    Object.assign(redis, { [name]: run });
  };
}

/**
 * Writes the commands of one turn of the event loop to a connection as one text, as ioredis' auto-pipelining does,
 * without its pipelines and its two promises for each command.
 */
export function batchWrites(redis: Redis): void {
  redis.on("connect", () => joinTexts(redis.stream));
}

/** Joins the texts that are written to a connection in one turn. Whatever else is written keeps its place between them. */
function joinTexts(connection: Redis["stream"]): void {
  const write = connection.write.bind(connection) as (...args: unknown[]) => boolean;
  const end = connection.end.bind(connection) as (...args: unknown[]) => typeof connection;
  let text = "";
  const flush = () => {
    if (text !== "") write(text);
    text = "";
  };
  connection.write = (data: unknown, ...more: unknown[]) => {
    if (typeof data !== "string" || more.length > 0) {
      flush();
      return write(data, ...more);
    }
    if (text === "") setImmediate(flush);
    text += data;
    return true;
  };
  connection.end = (...args: unknown[]) => {
    flush();
    return end(...args);
  };
}

/** How many times a connection is checked within the time that it may be silent. */
const LOOKS = 4;

/**
 * Ends a connection from which nothing has come for a time though answers are awaited, so that a new one is made.
 * ioredis has an option for this, `socketTimeout`, whose timer outlives its connection and ends the next one (5.11.1).
 *
 * @param silenceMs how long it may be silent, in milliseconds; what is ended has been silent up to a quarter longer
 * @returns whether it is silent now, for at least a quarter of that time
 */
export function dropWhenSilent(redis: Redis, silenceMs: number): () => boolean {
  let silent = 0;
  redis.on("connect", () => {
    const { stream } = redis;
    let bytesRead = -1;
    silent = 0;
    const look = () => {
      const isHeard = stream.bytesRead !== bytesRead;
      silent = isHeard || redis.commandQueue.length === 0 ? 0 : silent + 1;
      bytesRead = stream.bytesRead;
      // The first check may have come right after a command was sent.
      if (silent <= LOOKS || stream.destroyed) return;
      stream.destroy(new Error(`Redis does not answer: nothing has come for ${silenceMs} ms`));
    };
    // After the reads of this turn, so that answers which arrived while the process was busy count.
    const timer = setInterval(() => setImmediate(look), silenceMs / LOOKS);
    stream.once("close", () => clearInterval(timer));
  });
  return () => silent > 1;
}

/** The longest pause between two attempts, in milliseconds. */
const LONGEST_MS = 2000;

/** A refusal that comes more than so many milliseconds after the last one belongs to another demotion. */
const OVER_MS = 10_000;

/**
 * Connects anew when Redis refuses a change because it is a replica: it was demoted, and the name or address may lead
 * to the new primary by now. The first time at once, then with pauses that double, because reads are answered meanwhile
 * and each attempt interrupts them.
 */
function reconnectWhenDemoted(redis: Redis): void {
  let pauseMs = 0;
  let last = Number.NEGATIVE_INFINITY;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const reconnect = () => {
    timer = undefined;
    if (redis.status === "ready") redis.disconnect(true);
  };
  // Called with every error that Redis answers; returns whether ioredis is to connect again.
  redis.options.reconnectOnError = ({ message }) => {
    if (!message.startsWith("READONLY")) return false;
    const now = performance.now();
    if (now - last > OVER_MS) pauseMs = 0;
    last = now;
    if (timer !== undefined) return false;
    timer = setTimeout(reconnect, pauseMs).unref();
    pauseMs = Math.min(pauseMs * 2 || 100, LONGEST_MS);
    return false;
  };
}

/**
 * What a connection knows of Redis' clock: how far it is ahead of this process', at the least. A deadline by it is
 * therefore never later for Redis than it is here.
 *
 * Every answer with a time shows where Redis' clock was at some instant between the question and the answer, which
 * bounds the difference from both sides. When it is out of these bounds it is set to the lower one, so that it follows
 * a clock that drifts or is set.
 */
export class RedisClock {
  /** Redis' milliseconds since 1970 less those of `performance.now()`. */
  #ahead = Number.NEGATIVE_INFINITY;

  /**
   * @param time Redis' clock in milliseconds, without the fraction
   * @param asked `performance.now()` before it was asked for
   * @param answered `performance.now()` when the answer was there
   */
  learn(time: number, asked: number, answered: number): void {
    const atLeast = time - answered;
    if (this.#ahead < atLeast || this.#ahead > time + 1 - asked) this.#ahead = atLeast;
  }

  /** An instant of `performance.now()` by Redis' clock, as a script takes it. */
  at(instant: number): string {
    return String(Math.floor(instant + this.#ahead));
  }
}
