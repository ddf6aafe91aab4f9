import { createHash } from "node:crypto";
import { Command, type Redis, type RedisOptions } from "ioredis";
import { type RedisClock, readClock } from "./clock.ts";
import type { PlainCommands } from "./commands.ts";
import { isAnswerTo, isNotSent, refusalWordOf, textOf } from "./errors.ts";
import { newRedis, type RedisDestination, redisOptions, setupFault } from "./options.ts";
import { requireUsable } from "./requirements.ts";
import { batchWrites, dropWhenSilent } from "./sockets.ts";

/** How the connections to a node behave, and who is told of them. */
export interface NodeOptions {
  /** How long a call may take, in milliseconds; how long a connection may be silent while answers are awaited. */
  readonly timeoutMs: number;
  /** How many replicas must confirm a change; default 0: none. */
  readonly minReplicas?: number;
  /** Told of connection errors, at most once per attempt; of StoreMisconfigured when Redis cannot be used as it is. */
  readonly onError: (error: Error) => void;
  /** Checks what a new connection leads to. Changes are sent over the connection when it has settled. Default: no check. */
  readonly checkConnection?: (redis: Redis) => Promise<void>;
  /** Told whenever a connection is ready. */
  readonly onReady: () => void;
  /** Told whenever a connection is lost. */
  readonly onClose?: () => void;
  /** Told when the connection is replaced because its node is a replica now. */
  readonly onDemoted?: () => void;
}

/** A client of ioredis whose commands include the scripts that are defined. */
export type ScriptedRedis = Redis &
  PlainCommands & {
    /** Makes a script a command of that name; its arguments are the number of its keys, these keys, and what else it takes. */
    defineScript(name: string, lua: string): void;
  };

/** A connection to Redis, which is made anew whenever it is lost. */
export interface StoreConnection {
  readonly redis: ScriptedRedis;
  /** Redis' clock as far as it is known; undefined while nothing can be sent. */
  clock: RedisClock | undefined;
  /** How often it was lost. */
  losses: number;
  /** Ends this connection and opens another one. */
  replace(): void;
  close(): void;
}

/** How long a connection may be silent while answers are awaited, at the least, in milliseconds. */
const SHORTEST_SILENCE_MS = 100;

/** How long after ioredis has given up it is told to connect again, in milliseconds. */
const GIVEN_UP_MS = 100;

/** Connects to Redis. */
export function connect(destination: RedisDestination, options: NodeOptions): StoreConnection {
  const { timeoutMs, minReplicas = 0, checkConnection, onError, onReady, onClose, onDemoted } = options;
  const reconnectOnError = onDemotion(async () => {
    // While the address leads to a replica, this connection at least answers reads.
    if (destination.shape === "node" && !(await leadsToPrimary(destination))) return;
    connection.replace();
    onDemoted?.();
  });
  const client = newRedis({ ...redisOptions(destination), reconnectOnError }, () => destination.secrets.password);
  const redis = Object.assign(client, { defineScript: scriptDefiner(client) }) as ScriptedRedis;
  batchWrites(redis);
  dropWhenSilent(redis, Math.max(timeoutMs, SHORTEST_SILENCE_MS));

  let isClosed = false;
  const connection: StoreConnection = {
    redis,
    clock: undefined,
    losses: 0,
    replace() {
      if (redis.status === "ready") redis.disconnect(true);
    },
    close() {
      isClosed = true;
      redis.disconnect();
    },
  };
  const report = (error: Error) => onError(setupFault(error, destination) ?? new Error(textOf(error)));
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
      const checked = requireUsable(redis, { isCluster: destination.shape === "cluster", waits: minReplicas > 0 });
      const asked = Promise.all([
        readClock(redis),
        // If it fails and the connection is not lost, the check is made again later.
        checkConnection?.(redis).catch(() => {}),
      ]).then(([clock]) => {
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

/**
 * Defines scripts as commands of a connection, which cost less than ioredis' own. A script is sent whole until the
 * connection has answered it once, and by its digest from then on.
 */
function scriptDefiner(redis: Redis): ScriptedRedis["defineScript"] {
  const known = new Set<string>();
  redis.on("close", () => known.clear());
  const utf8 = { replyEncoding: "utf8" } as const;
  return (name, lua) => {
    const digest = createHash("sha1").update(lua).digest("hex");
    const run = (...args: string[]): Promise<unknown> => {
      if (!known.has(digest)) {
        const first = redis.sendCommand(new Command("eval", [lua, ...args], utf8)) as Promise<unknown>;
        // A node of a Cluster that redirects the script has not learnt it.
        first.then(
          () => known.add(digest),
          () => {},
        );
        return first;
      }
      const answer = redis.sendCommand(new Command("evalsha", [digest, ...args], utf8)) as Promise<unknown>;
      return answer.catch((error: unknown) => {
        if (refusalWordOf(error) !== "NOSCRIPT") throw error;
        known.delete(digest);
        return run(...args);
      });
    };
    Object.assign(redis, { [name]: run });
  };
}

/** The longest pause between two attempts, in milliseconds. */
const LONGEST_MS = 2000;

/** A refusal that comes more than so many milliseconds after the last one belongs to another demotion. */
const OVER_MS = 10_000;

/** How long a new connection may take to be opened or to answer, in milliseconds. */
const LOOK_MS = 500;

/** Whether a new connection to a destination leads to a primary. */
async function leadsToPrimary(destination: RedisDestination): Promise<boolean> {
  const options = {
    ...redisOptions(destination),
    lazyConnect: true,
    enableReadyCheck: false,
    retryStrategy: () => null,
    connectTimeout: LOOK_MS,
    commandTimeout: LOOK_MS,
  };
  const redis = newRedis(options, () => destination.secrets.password).on("error", () => {});
  try {
    await redis.connect();
    // Every user may send it.
    const answer = (await redis.call("HELLO")) as unknown[];
    return answer[answer.indexOf("role") + 1] === "master";
  } catch {
    return false;
  } finally {
    redis.disconnect();
  }
}

/**
 * Replaces a connection when Redis refuses a change because it is a replica: it was demoted, and the name or address may
 * lead to the new primary by now. The first time at once, then with pauses that double.
 *
 * @returns ioredis' option `reconnectOnError`, which always says no: the connection is replaced here
 */
function onDemotion(replace: () => unknown): NonNullable<RedisOptions["reconnectOnError"]> {
  let pauseMs = 0;
  let last = Number.NEGATIVE_INFINITY;
  let timer: ReturnType<typeof setTimeout> | undefined;
  return (error) => {
    if (refusalWordOf(error) !== "READONLY") return false;
    const now = performance.now();
    if (now - last > OVER_MS) pauseMs = 0;
    last = now;
    if (timer !== undefined) return false;
    timer = setTimeout(() => {
      timer = undefined;
      replace();
    }, pauseMs).unref();
    pauseMs = Math.min(pauseMs * 2 || 100, LONGEST_MS);
    return false;
  };
}
