import type { Redis, RedisOptions } from "ioredis";
import { DomainError, RecordUnreadable, StoreUnavailable, TooFewReplicas } from "../domain/errors.ts";
import { BatchingRedis } from "./batching-redis.ts";
import { CREATE, RESOLVE, ROTATE, SETTLE, UPDATE } from "./scripts.ts";

type HashRedis = Redis & Pick<ScriptedRedis, "flatHash">;
type ScriptCall = (key: string, ...args: string[]) => Promise<string[]>;

/** ioredis with what this service asks for as commands. */
export type ScriptedRedis = Redis & {
  /** HGETALL, as a flat array of fields and values; empty when there is none. */
  flatHash(key: string): Promise<string[]>;
  ugCreate: ScriptCall;
  ugUpdate: ScriptCall;
  ugRotate: ScriptCall;
  ugSettle: ScriptCall;
  ugResolve: ScriptCall;
};

/** Told of every round trip to the store. */
export type StoreObserver = (roundTrip: { operation: string; seconds: number; failed: boolean }) => void;

/** How a client talks to Redis. */
export interface StoreClientOptions {
  /** How long a call may take, in milliseconds. */
  readonly timeoutMs: number;
  /** How many replicas must confirm a change; 0 for none. Not for the embedded store. */
  readonly minReplicas?: number;
  readonly observe?: StoreObserver;
  /** Told of connection errors, at most once per attempt. */
  readonly onError?: (error: Error) => void;
  /** Told whenever a connection is ready. */
  readonly onReady?: () => void;
}

/** A call to the store that is under way. */
class RoundTrip {
  readonly #operation: string;
  readonly #observe: StoreObserver | undefined;
  readonly #reject: (error: StoreUnavailable) => void;
  readonly #started = performance.now();
  readonly #timer: ReturnType<typeof setTimeout>;
  #isEnded = false;

  constructor(
    operation: string,
    observe: StoreObserver | undefined,
    reject: (error: StoreUnavailable) => void,
    timeoutMs: number,
  ) {
    this.#operation = operation;
    this.#observe = observe;
    this.#reject = reject;
    this.#timer = setTimeout(RoundTrip.#expire, timeoutMs, this, timeoutMs);
  }

  static #expire(roundTrip: RoundTrip, timeoutMs: number): void {
    roundTrip.end(true);
    roundTrip.#reject(new StoreUnavailable(new Error(`${roundTrip.#operation}: no answer within ${timeoutMs} ms`)));
  }

  end(failed: boolean): void {
    // What comes after the timeout has been counted as a failure already.
    if (this.#isEnded) return;
    this.#isEnded = true;
    clearTimeout(this.#timer);
    this.#observe?.({
      operation: this.#operation,
      seconds: (performance.now() - this.#started) / 1000,
      failed,
    });
  }
}

/** The store's connections, with a deadline and one kind of error on every call. */
export class StoreClient {
  readonly redis: ScriptedRedis;
  readonly #changes: ScriptedRedis;
  readonly #options: StoreClientOptions;

  /**
   * @param changes a connection for changes that wait for replicas, which keeps
   *   whatever comes after them on it waiting; default: the one for everything
   */
  constructor(redis: HashRedis, options: StoreClientOptions, changes: HashRedis = redis) {
    this.redis = withScripts(redis);
    this.#changes = changes === redis ? this.redis : withScripts(changes);
    this.#options = options;
  }

  /**
   * Runs one round trip.
   *
   * @throws StoreUnavailable when it fails or takes longer than the timeout, RecordUnreadable when a key holds another type
   */
  run<T>(operation: string, command: (redis: ScriptedRedis) => Promise<T>): Promise<T> {
    const { timeoutMs, observe } = this.#options;
    return new Promise<T>((resolve, reject) => {
      const roundTrip = new RoundTrip(operation, observe, reject, timeoutMs);
      command(this.redis).then(
        (value) => {
          roundTrip.end(false);
          resolve(value);
        },
        (error: unknown) => {
          roundTrip.end(true);
          reject(storeError(error));
        },
      );
    });
  }

  /**
   * Runs a change in one round trip; with `minReplicas` in two, for it waits
   * until that many replicas have the change.
   *
   * @throws as `run`, and TooFewReplicas
   */
  change<T>(operation: string, command: (redis: ScriptedRedis) => Promise<T>): Promise<T> {
    const { minReplicas = 0, timeoutMs } = this.#options;
    if (minReplicas === 0) return this.run(operation, command);
    return this.run(operation, async () => {
      const value = await command(this.#changes);
      // Not beside it: it answers for what this connection wrote before it, and a script
      // that Redis did not know would be sent again behind it.
      const confirmed = await this.#changes.wait(minReplicas, Math.ceil(timeoutMs * 0.8));
      if (confirmed < minReplicas) throw new TooFewReplicas();
      return value;
    });
  }

  /** @throws StoreUnavailable */
  async ping(): Promise<void> {
    await this.run("ping", (redis) => redis.ping());
  }

  /** Closes the connections; calls under way fail. */
  close(): void {
    this.redis.disconnect();
    this.#changes.disconnect();
  }
}

/**
 * Connects to one Redis node and waits until it is ready.
 *
 * @param url `redis://` or `rediss://`
 * @param options with how long to try in `connectMs`, default 10,000 ms
 * @throws StoreUnavailable when it is not ready in time
 */
export async function openRedis(
  url: string,
  options: StoreClientOptions & { connectMs?: number },
): Promise<StoreClient> {
  let lastError: Error | undefined;
  const connect = () => {
    const redis = new BatchingRedis(url, redisOptions(options.timeoutMs));
    redis.on("error", (error) => {
      lastError = error;
      options.onError?.(error);
    });
    redis.on("ready", () => options.onReady?.());
    return redis;
  };
  const redis = connect();
  const changes = (options.minReplicas ?? 0) > 0 ? connect() : redis;
  const client = new StoreClient(redis, options, changes);
  try {
    const connectMs = options.connectMs ?? 10_000;
    await Promise.all([...new Set([redis, changes])].map((connection) => ready(connection, connectMs)));
  } catch {
    client.close();
    throw new StoreUnavailable(lastError);
  }
  return client;
}

/** The embedded store: in the memory of this process, empty at first. */
export async function openEmbedded(options: StoreClientOptions): Promise<StoreClient> {
  const { default: RedisMock } = await import("ioredis-mock");
  // Instances of one host share their data; a name of its own makes this one new.
  const redis = new RedisMock({ host: crypto.randomUUID() });
  const flatHash = async (key: string) => Object.entries(await redis.hgetall(key)).flat();
  return new StoreClient(Object.assign(redis, { flatHash }), options);
}

function withScripts(redis: HashRedis): ScriptedRedis {
  redis.defineCommand("ugCreate", CREATE);
  redis.defineCommand("ugUpdate", UPDATE);
  redis.defineCommand("ugRotate", ROTATE);
  redis.defineCommand("ugSettle", SETTLE);
  redis.defineCommand("ugResolve", RESOLVE);
  return redis as ScriptedRedis;
}

function redisOptions(timeoutMs: number): RedisOptions {
  return {
    // While Redis is away a call fails at once instead of waiting for it.
    enableOfflineQueue: false,
    // A change that was cut off must not be made a second time.
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    connectTimeout: 500,
    // Drops a connection that is open but silent, so that a new one is made.
    socketTimeout: Math.max(timeoutMs, 100),
    retryStrategy: (attempt) => Math.min(50 * attempt, 500),
  };
}

function ready(redis: Redis, connectMs: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      redis.off("ready", onReady);
      reject(new Error("timeout"));
    }, connectMs);
    const onReady = () => {
      clearTimeout(timer);
      resolve();
    };
    redis.once("ready", onReady);
  });
}

function storeError(error: unknown): DomainError {
  if (error instanceof DomainError) return error;
  const message = error instanceof Error ? error.message : String(error);
  // ioredis puts the command with its arguments on the error; the text alone is safe to keep.
  const cause = new Error(message);
  return message.startsWith("WRONGTYPE") ? new RecordUnreadable(cause) : new StoreUnavailable(cause);
}
