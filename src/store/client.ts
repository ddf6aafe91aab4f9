import { DomainError, RecordUnreadable, StoreUnavailable, TooFewReplicas } from "../domain/errors.ts";
import type { StoreProbe } from "../domain/store.ts";
import { connect, type ScriptedRedis, type StoreConnection } from "./connection.ts";
import { PROBE_KEY } from "./keys.ts";
import { StoreMisconfigured } from "./misconfigured.ts";
import { redisAddress } from "./redis-url.ts";
import { Replicas } from "./replicas.ts";
import { MADE } from "./scripts.ts";
import { TimedCall, Timeouts } from "./timeouts.ts";

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

/** The share of what is left to a call in which Redis may carry out its change; the rest is for the answer. */
const CHANGE_SHARE = 0.9;

/** The share of the timeout for which one WAIT may hold up the changes behind it. */
const WAIT_SHARE = 0.8;

/** How often a change is sent that was too late by Redis' clock, though the call has time left. */
const TRIES = 3;

/** A call to the store that is under way. */
class RoundTrip extends TimedCall {
  readonly operation: string;
  readonly started = performance.now();
  /** Whether it is known that what it was to change is changed. */
  isMade = false;
  isEnded = false;
  readonly #client: StoreClient;
  readonly #reject: (error: DomainError) => void;

  constructor(client: StoreClient, operation: string, reject: (error: DomainError) => void) {
    super();
    this.#client = client;
    this.operation = operation;
    this.#reject = reject;
  }

  override expire(): void {
    const cause = new Error(`${this.operation}: no answer in time`);
    this.#client.end(this, true);
    this.#reject(this.isMade ? new TooFewReplicas(cause) : new StoreUnavailable(cause));
  }
}

/** The store's connections, with a deadline and one kind of error on every call. */
export class StoreClient implements StoreProbe {
  readonly redis: ScriptedRedis;
  readonly #connection: StoreConnection;
  readonly #changes: StoreConnection;
  readonly #replicas: Replicas | undefined;
  readonly #observe: StoreObserver | undefined;
  readonly #timeoutMs: number;
  readonly #timeouts: Timeouts;

  /**
   * @param changes a connection for changes that wait for replicas, which keeps
   *   whatever comes after them on it waiting; default: the one for everything
   */
  constructor(connection: StoreConnection, options: StoreClientOptions, changes = connection) {
    const { timeoutMs, minReplicas = 0, observe } = options;
    this.redis = connection.redis;
    this.#connection = connection;
    this.#changes = changes;
    this.#observe = observe;
    this.#timeoutMs = timeoutMs;
    this.#timeouts = new Timeouts(timeoutMs);
    if (minReplicas > 0) {
      const wait = (count: number, ms: number) => changes.redis.wait(count, ms);
      this.#replicas = new Replicas(wait, minReplicas, timeoutMs * WAIT_SHARE);
    }
  }

  /** Whether every connection is there. */
  isReady(): boolean {
    return this.#connection.isReady() && this.#changes.isReady();
  }

  /**
   * Runs one round trip that changes nothing.
   *
   * @throws StoreUnavailable when it fails or takes longer than the timeout, RecordUnreadable when a key holds another type
   */
  run<T>(operation: string, command: (redis: ScriptedRedis) => Promise<T>): Promise<T> {
    return this.#trip(operation, () => command(this.redis));
  }

  /**
   * Makes a change, which is one of the scripts that take a deadline, in one
   * round trip. It is made before the call fails with StoreUnavailable, or not
   * at all. With `minReplicas` it waits for the replicas in a second round trip.
   *
   * @param command is given the deadline; it may be asked again when it was too late
   * @throws as `run`; TooFewReplicas when the change was made
   */
  change(operation: string, command: (redis: ScriptedRedis, deadline: string) => Promise<string[]>): Promise<string[]> {
    return this.#trip(operation, async (trip) => {
      const answer = await this.#send(trip, command);
      trip.isMade = MADE.has(answer[0]);
      if (trip.isMade) await this.#replicas?.confirm(this.#timeouts.left(trip));
      return answer;
    });
  }

  /**
   * Asks whether a change could be made. The command changes nothing, because
   * the key is never there, and so is neither replicated nor written to disk.
   * Yet Redis refuses it as any change: when its memory is full, when it cannot
   * write to disk, when it is a replica or has too few.
   *
   * @throws StoreUnavailable
   */
  async ping(): Promise<void> {
    if (!this.#changes.isReady()) throw new StoreUnavailable(new Error("not connected"));
    await this.run("ping", (redis) => redis.set(PROBE_KEY, "1", "XX"));
  }

  /** Closes the connections; calls under way fail. */
  close(): void {
    this.redis.disconnect();
    this.#changes.redis.disconnect();
  }

  /** Ends a round trip, once. @internal */
  end(trip: RoundTrip, failed: boolean): void {
    trip.isEnded = true;
    this.#observe?.({ operation: trip.operation, seconds: (performance.now() - trip.started) / 1000, failed });
  }

  #trip<T>(operation: string, work: (trip: RoundTrip) => Promise<T>): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      const trip = new RoundTrip(this, operation, reject);
      this.#timeouts.add(trip, trip.started);
      work(trip).then(
        (value) => {
          if (trip.isEnded) return;
          this.#timeouts.remove(trip);
          this.end(trip, false);
          resolve(value);
        },
        (error: unknown) => {
          // What comes after the timeout has been counted as a failure already.
          if (trip.isEnded) return;
          this.#timeouts.remove(trip);
          this.end(trip, true);
          reject(storeError(error));
        },
      );
    });
  }

  async #send(trip: RoundTrip, command: (redis: ScriptedRedis, deadline: string) => Promise<string[]>) {
    for (let tries = 1; ; tries++) {
      const known = this.#changes.clock();
      const clock = known instanceof Promise ? await known : known;
      const sent = performance.now();
      const deadline = clock.at(sent + this.#timeouts.left(trip) * CHANGE_SHARE);
      // What is not sent cannot be carried out: this may be said at once.
      if (!this.#changes.isReady()) throw new Error("not connected");
      const answer = await command(this.#changes.redis, deadline).catch((error: unknown) => {
        if (!this.#changes.isLoss(error)) throw error;
        // Redis may have it and carry it out until the deadline; that it failed is true when the call has run out.
        return new Promise<never>(() => {});
      });
      clock.learn(Number(answer[1]), sent, performance.now());
      if (answer[0] !== "late") return answer;
      // With time left, Redis' clock was set, or this process was long in sending; nothing was changed.
      const hasTime = !trip.isEnded && this.#timeouts.left(trip) > this.#timeoutMs * (1 - CHANGE_SHARE);
      if (tries === TRIES || !hasTime) {
        throw new StoreUnavailable(new Error(`${trip.operation}: it reached Redis too late, and was not carried out`));
      }
    }
  }
}

/**
 * Connects to one Redis node and waits until it is ready.
 *
 * @param url `redis://` or `rediss://`
 * @param options with how long to try in `connectMs`, default 10,000 ms
 * @throws StoreUnavailable when it is not ready in time; StoreMisconfigured at once when it will never be
 */
export async function openRedis(
  url: string,
  options: StoreClientOptions & { connectMs?: number },
): Promise<StoreClient> {
  let lastError: Error | undefined;
  const open = () =>
    connect(redisAddress(url), {
      silenceMs: Math.max(options.timeoutMs, 100),
      onError: (error) => {
        lastError = error;
        options.onError?.(error);
      },
      onReady: () => options.onReady?.(),
    });
  const first = open();
  const changes = (options.minReplicas ?? 0) > 0 ? open() : first;
  const client = new StoreClient(first.connection, options, changes.connection);
  try {
    await within(options.connectMs ?? 10_000, Promise.all([first.opened, changes.opened]));
  } catch (error) {
    client.close();
    throw error instanceof StoreMisconfigured ? error : new StoreUnavailable(lastError);
  }
  return client;
}

/** Waits for something for so many milliseconds at most. */
async function within(ms: number, what: Promise<unknown>): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const timeout = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error("timeout")), ms);
  });
  try {
    await Promise.race([what, timeout]);
  } finally {
    clearTimeout(timer);
  }
}

function storeError(error: unknown): DomainError {
  if (error instanceof DomainError) return error;
  const message = error instanceof Error ? error.message : String(error);
  // ioredis puts the command with its arguments on the error; the text alone is safe to keep.
  const cause = new Error(message);
  return message.startsWith("WRONGTYPE") ? new RecordUnreadable(cause) : new StoreUnavailable(cause);
}
