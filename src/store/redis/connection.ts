import { Redis } from "ioredis";
import { isAnswerTo, isNotSent, NotSent } from "./answers.ts";
import { batchWrites } from "./batch-writes.ts";
import type { PlainCommands } from "./commands.ts";
import { type RedisPlace, redisOptions, setupFault } from "./options.ts";
import { dropWhenSilent, reconnectWhenDemoted } from "./reconnects.ts";
import { RedisClock } from "./redis-clock.ts";
import { requireUsable } from "./requirements.ts";

/** ioredis, which `sendScript` makes the scripts of this service commands of. */
export type ScriptedRedis = Redis & PlainCommands;

/** A connection to Redis, which is made anew whenever it is lost. */
export interface StoreConnection {
  readonly redis: ScriptedRedis;
  /** Redis' clock as far as it is known; a promise while it is being asked for. @throws NotSent when it cannot be asked for */
  clock(): RedisClock | Promise<RedisClock>;
  /** Whether a command would be sent now. */
  isReady(): boolean;
  /** Whether nothing has come for a while though answers are awaited. */
  isSilent(): boolean;
  /** How often it was lost. */
  losses(): number;
  close(): void;
}

/** How a connection behaves, and who is told of it. */
export interface ConnectionOptions {
  /** How long it may be silent while answers are awaited, in milliseconds; then it is made anew. */
  readonly silenceMs: number;
  /** How many replicas must confirm a change; 0 for none. */
  readonly minReplicas: number;
  /** Told of connection errors, at most once per attempt; of StoreMisconfigured when Redis cannot be used as it is. */
  readonly onError: (error: Error) => void;
  /** Told whenever the connection is ready. */
  readonly onReady: () => void;
  /** Told whenever the connection is lost. */
  readonly onClose?: () => void;
}

/** How long after ioredis has given up it is told to connect again, in milliseconds. */
const GIVEN_UP_MS = 100;

/**
 * Connects to Redis. `opened` resolves when the connection is ready; it rejects with StoreMisconfigured when the
 * settings prevent that.
 */
export function connect(place: RedisPlace, options: ConnectionOptions) {
  const onRedisError = reconnectWhenDemoted(() => redis);
  const redis = new Redis(redisOptions(place, onRedisError)) as ScriptedRedis;
  batchWrites(redis);
  const isSilent = dropWhenSilent(redis, options.silenceMs);

  let clock: RedisClock | Promise<RedisClock> = noClock();
  let losses = 0;
  let isClosed = false;
  const opened = new Promise<void>((resolve, reject) => {
    const report = (error: Error) => {
      const fault = setupFault(error, place);
      if (fault) reject(fault);
      options.onError(fault ?? error);
    };
    redis.on("error", (error) => {
      // ioredis would go on with database 0.
      if (isAnswerTo("select", error)) redis.disconnect(true);
      report(error);
    });
    redis.on("close", () => {
      losses++;
      clock = noClock();
      options.onClose?.();
    });
    redis.on("end", () => {
      // ioredis gives up when its connector fails, or is ended while it looks for the master.
      setTimeout(() => isClosed || redis.connect().catch(() => {}), GIVEN_UP_MS).unref();
    });
    redis.on("ready", () => {
      const checked = requireUsable(redis, { isCluster: place.shape === "cluster", waits: options.minReplicas > 0 });
      const asked = readClock(redis);
      clock = asked;
      // Whoever asks for the clock is told that it cannot be had.
      asked.catch(() => {});
      checked
        .then(() => asked)
        .then(
          (known) => {
            if (clock !== asked) return;
            clock = known;
            options.onReady();
            resolve();
          },
          // What ends a connection that was ready for a moment has been reported.
          (error) => clock === asked && !isNotSent(error) && report(error),
        );
    });
  });
  const connection: StoreConnection = {
    redis,
    clock: () => clock,
    isReady: () => redis.status === "ready",
    isSilent,
    losses: () => losses,
    close: () => {
      isClosed = true;
      redis.disconnect();
    },
  };
  return { connection, opened };
}

function noClock(): Promise<RedisClock> {
  const none = Promise.reject(new NotSent("not connected"));
  // This is no unhandled rejection: whoever asks for the clock gets it.
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
