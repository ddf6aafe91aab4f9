import { isIP } from "node:net";
import { Redis, type RedisOptions } from "ioredis";
import { batchWrites } from "./batch-writes.ts";
import { dropWhenSilent } from "./drop-when-silent.ts";
import { StoreMisconfigured } from "./misconfigured.ts";
import { reconnectWhenDemoted } from "./reconnect-when-demoted.ts";
import { RedisClock } from "./redis-clock.ts";
import type { RedisAddress } from "./redis-url.ts";
import { SCRIPTS } from "./scripts.ts";

/** ioredis with the scripts of this service as commands. */
export type ScriptedRedis = Redis & {
  readonly [name in keyof typeof SCRIPTS]: (key: string, ...args: string[]) => Promise<string[]>;
};

/** A connection to Redis, which is made anew whenever it is lost. */
export interface StoreConnection {
  readonly redis: ScriptedRedis;
  /** Redis' clock as far as it is known; a promise while it is being asked for. @throws when it cannot be asked for */
  clock(): RedisClock | Promise<RedisClock>;
  /** Whether a command would be sent now. */
  isReady(): boolean;
  /** Whether a command failed with its connection, and not by Redis' answer: it may still be carried out. */
  isLoss(error: unknown): boolean;
}

/** How a connection behaves, and who is told of it. */
export interface ConnectionOptions {
  /** How long it may be silent while answers are awaited, in milliseconds; then it is made anew. */
  readonly silenceMs: number;
  /** Told of connection errors, at most once per attempt. */
  readonly onError: (error: Error) => void;
  /** Told whenever the connection is ready. */
  readonly onReady: () => void;
}

/** Connects to one Redis node; `opened` resolves when it is ready, and rejects when it cannot become so as it is set up. */
export function connect(address: RedisAddress, options: ConnectionOptions) {
  const onRedisError = reconnectWhenDemoted(() => redis);
  const redis = new Redis(redisOptions(address, onRedisError)) as ScriptedRedis;
  batchWrites(redis);
  dropWhenSilent(redis, options.silenceMs);
  for (const [name, lua] of Object.entries(SCRIPTS)) redis.defineCommand(name, { lua, numberOfKeys: 1 });

  let clock: RedisClock | Promise<RedisClock> = noClock();
  const opened = new Promise<void>((resolve, reject) => {
    let isOpened = false;
    let hasFailed = false;
    const report = (error: Error) => {
      const fault = setupFault(error, address);
      hasFailed ||= fault !== undefined && !isOpened;
      // What ends the start is said by whoever starts, and what follows from it by nobody.
      if (hasFailed) reject(fault);
      else options.onError(fault ?? error);
    };
    redis.on("error", (error) => {
      // ioredis would go on with database 0.
      if (isAnswerTo("select", error)) redis.disconnect(true);
      report(error);
    });
    redis.on("close", () => {
      clock = noClock();
    });
    redis.on("ready", () => {
      const asked = readClock(redis);
      clock = asked;
      asked.then((known) => {
        if (clock !== asked) return;
        clock = known;
        isOpened = true;
        options.onReady();
        resolve();
      }, report);
    });
  });
  const connection = { redis, clock: () => clock, isReady: () => redis.status === "ready", isLoss };
  return { connection: connection satisfies StoreConnection, opened };
}

function isLoss(error: unknown): boolean {
  return (error as Error).name !== "ReplyError";
}

function noClock(): Promise<RedisClock> {
  const none = Promise.reject(new Error("not connected"));
  // It is no fault of its own: whoever asks for the clock is told.
  none.catch(() => {});
  return none;
}

/** Asks Redis for its clock. */
export async function readClock(redis: Redis): Promise<RedisClock> {
  const clock = new RedisClock();
  const asked = performance.now();
  const [seconds, microseconds] = await redis.time();
  clock.learn(Number(seconds) * 1000 + Math.floor(Number(microseconds) / 1000), asked, performance.now());
  return clock;
}

function redisOptions(address: RedisAddress, onRedisError: (error: Error) => void): RedisOptions {
  const { host, port, db, tls, username, password } = address;
  return {
    host,
    port,
    db,
    // Node names no host to the server by itself, and a server of many hosts needs it.
    ...(tls && { tls: isIP(host) ? {} : { servername: host } }),
    ...(username !== undefined && { username }),
    ...(password !== undefined && { password }),
    // While Redis is away a call fails at once instead of waiting for it.
    enableOfflineQueue: false,
    // A change that was cut off must not be made a second time.
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    connectTimeout: 500,
    retryStrategy: (attempt) => Math.min(50 * attempt, 500),
    // How often a Redis that loads its data is asked whether it has; its own guess is whole seconds.
    maxLoadingRetryTime: 100,
    reconnectOnError: (error) => {
      onRedisError(error);
      return false;
    },
  };
}

function isAnswerTo(command: string, error: Error): boolean {
  return (error as { command?: { name?: string } }).command?.name === command;
}

/** What is wrong with the settings when Redis answers a new connection with an error; undefined for all other errors. */
function setupFault(error: Error, { db, password }: RedisAddress): StoreMisconfigured | undefined {
  if (isAnswerTo("select", error)) {
    return new StoreMisconfigured(
      `Redis refuses database ${db} (${error.message}); choose another one at the end of REDIS_URL`,
    );
  }
  if (error.message.startsWith("NOPERM")) {
    return new StoreMisconfigured(
      `Redis does not let the user of REDIS_URL do what this service needs (${error.message}); give that user the rights to it`,
    );
  }
  if (!isAnswerTo("auth", error) && !/^(WRONGPASS|NOAUTH)\b/.test(error.message)) return undefined;
  return new StoreMisconfigured(
    password === undefined
      ? `Redis wants a password (${error.message}); give it in REDIS_URL as redis://:PASSWORD@HOST or redis://USER:PASSWORD@HOST`
      : `Redis refuses the user or password of REDIS_URL (${error.message})`,
  );
}
