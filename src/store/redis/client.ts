import {
  type ChangeOutcome,
  DomainError,
  RecordUnreadable,
  StoreUnavailable,
  TooFewReplicas,
} from "../../domain/errors.ts";
import type { StoreProbe } from "../../domain/store.ts";
import { PROBE_KEY } from "../keys.ts";
import { argumentsOf, MADE, type Script, type ScriptArgs } from "../script.ts";
import { changedNothing, isNotSent, isRefusal, NotSent } from "./answers.ts";
import { type Answer, type CommandArgs, type CommandName, send, sendScript } from "./commands.ts";
import type { StoreConnection } from "./connection.ts";
import { isNodeReady, type StoreNode, type StoreNodes } from "./nodes.ts";
import { TimedCall, Timeouts } from "./timeouts.ts";

/** Told of every round trip to the store. */
export type StoreObserver = (roundTrip: { operation: string; seconds: number; failed: boolean }) => void;

/** How a client behaves. */
export interface StoreClientOptions {
  /** How long a call may take, in milliseconds. */
  readonly timeoutMs: number;
  readonly observe?: StoreObserver;
}

/** A change: one of the scripts that take a deadline. */
interface Change {
  readonly script: Script;
  readonly args: ScriptArgs<string>;
  /** The instant of `performance.now()` before which it must be sent. */
  readonly sendBy: number;
}

/** The share of what is left to a call in which Redis may carry out its change; the rest is for the answer. */
const CHANGE_SHARE = 0.9;

/** How often a change is sent in all, when it is too late by Redis' clock though the call has time left. */
const TRIES = 3;

/** A call to the store that is under way. */
class RoundTrip extends TimedCall {
  readonly operation: string;
  readonly started = performance.now();
  /** What is known of the change; undefined when the call makes none. */
  outcome: ChangeOutcome | undefined;
  /** Whether the change is known to be made. */
  isMade = false;
  isEnded = false;
  readonly #observe: StoreObserver | undefined;
  readonly #reject: (error: DomainError) => void;

  constructor(operation: string, observe: StoreObserver | undefined, reject: (error: DomainError) => void) {
    super();
    this.operation = operation;
    this.#observe = observe;
    this.#reject = reject;
  }

  /** Called once, with the answer or at the timeout. */
  finish(failed: boolean): void {
    this.isEnded = true;
    this.#observe?.({ operation: this.operation, seconds: (performance.now() - this.started) / 1000, failed });
  }

  override expire(): void {
    const cause = new Error(`${this.operation}: no answer in time`);
    this.finish(true);
    this.#reject(this.isMade ? new TooFewReplicas(cause) : new StoreUnavailable(cause, this.outcome));
  }
}

/** The store's connections, with a deadline and one kind of error on every call. */
export class StoreClient implements StoreProbe {
  /** The nodes of this Redis. */
  readonly nodes: StoreNodes;
  readonly #observe: StoreObserver | undefined;
  readonly #timeoutMs: number;
  readonly #timeouts: Timeouts;

  constructor(nodes: StoreNodes, { timeoutMs, observe }: StoreClientOptions) {
    this.nodes = nodes;
    this.#observe = observe;
    this.#timeoutMs = timeoutMs;
    this.#timeouts = new Timeouts(timeoutMs);
  }

  /** Whether every connection is ready. */
  isReady(): boolean {
    return this.nodes.isReady();
  }

  /**
   * Runs one command that changes nothing, at the node of its key.
   *
   * @param args of the command, the key first
   * @param outcome what a failure means for the change that it is a part of; default: there is none
   * @throws StoreUnavailable when it fails or takes longer than the timeout, RecordUnreadable when a key holds another type
   */
  run<Name extends CommandName>(
    operation: string,
    name: Name,
    args: CommandArgs<Name>,
    outcome?: ChangeOutcome,
  ): Promise<Answer<Name>> {
    return this.#trip(operation, (trip) => {
      trip.outcome = outcome;
      return this.nodes.at(args[0], ({ reads }, asking) => send(reads.redis, name, args, asking), trip);
    });
  }

  /** Runs a script that changes nothing, as `run` does a command. */
  ask<Name extends string>(
    operation: string,
    script: Script<Name>,
    args: ScriptArgs<Name>,
    outcome?: ChangeOutcome,
  ): Promise<string[]> {
    return this.#trip(operation, (trip) => {
      trip.outcome = outcome;
      const given = argumentsOf(script, args);
      return this.nodes.at(args.key, ({ reads }, asking) => sendScript(reads.redis, script, given, asking), trip);
    });
  }

  /**
   * Makes a change at the node of its key, by one of the scripts that take a deadline, in one round trip. It is made
   * before the call fails with StoreUnavailable, or not at all; the error's outcome says what is known. With
   * `minReplicas` it waits for the replicas in a second round trip. It is sent again when Redis got it too late, or when
   * another node has to be asked.
   *
   * @param sendBy the instant of `performance.now()` before which it must be sent; default: there is none
   * @throws as `run`; TooFewReplicas when the change was made
   */
  change<Name extends string>(
    operation: string,
    script: Script<Name>,
    args: ScriptArgs<Name>,
    sendBy = Number.POSITIVE_INFINITY,
  ): Promise<string[]> {
    return this.#trip(operation, (trip) => {
      trip.outcome = "not_made";
      const change = { script, args, sendBy };
      return this.nodes.at(args.key, (node, asking) => this.#change(trip, node, asking, change), trip);
    });
  }

  /**
   * Makes a change, as `change` does, that has to be made before another one. When it fails, the other one is not made.
   */
  prepare<Name extends string>(operation: string, script: Script<Name>, args: ScriptArgs<Name>): Promise<string[]> {
    return this.change(operation, script, args).catch((error: unknown) => {
      const isUnsure = error instanceof StoreUnavailable || error instanceof TooFewReplicas;
      throw isUnsure ? new StoreUnavailable(error.cause, "not_made") : error;
    });
  }

  /**
   * Asks every node that has keys, and leaves out those that fail or take longer than the timeout.
   *
   * @throws StoreUnavailable when all do
   */
  async each<T>(operation: string, ask: (redis: StoreConnection["redis"]) => Promise<T>): Promise<readonly T[]> {
    const asked = this.nodes.masters().map(({ reads }) => this.#trip(operation, () => ask(reads.redis)));
    await anyOf(asked);
    return (await Promise.allSettled(asked)).flatMap((each) => (each.status === "fulfilled" ? [each.value] : []));
  }

  /**
   * Asks whether a change could be made, at one of the nodes at least. The command changes nothing, because the key is
   * never there, and so is neither replicated nor written to disk. Yet Redis refuses it as any change: when its memory
   * is full, when it cannot write to disk, when it is a replica or has too few.
   *
   * @throws StoreUnavailable
   */
  async ping(): Promise<void> {
    const masters = this.nodes.masters().filter(isNodeReady);
    if (masters.length === 0) throw new StoreUnavailable(new Error("not connected"));
    const asked = masters.map((master) => {
      const key = this.nodes.keyOf(master, PROBE_KEY);
      return this.#trip("ping", (trip) => this.nodes.at(key, ({ reads }) => reads.redis.set(key, "1", "XX"), trip));
    });
    await anyOf(asked);
  }

  /** Closes the connections; calls under way fail. */
  close(): void {
    this.nodes.close();
  }

  #trip<T>(operation: string, work: (trip: RoundTrip) => Promise<T>): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      const trip = new RoundTrip(operation, this.#observe, reject);
      this.#timeouts.add(trip, trip.started);
      work(trip).then(
        (value) => {
          if (trip.isEnded) return;
          this.#timeouts.remove(trip);
          trip.finish(false);
          resolve(value);
        },
        (error: unknown) => {
          // What comes after the timeout has been counted as a failure already.
          if (trip.isEnded) return;
          this.#timeouts.remove(trip);
          trip.finish(true);
          reject(storeError(error, trip.outcome));
        },
      );
    });
  }

  async #change(trip: RoundTrip, node: StoreNode, asking: boolean, change: Change): Promise<string[]> {
    const answer = await this.#send(trip, node.changes, asking, change);
    trip.isMade = MADE.has(answer[0]);
    if (trip.isMade) await node.replicas?.confirm(this.#timeouts.left(trip));
    return answer;
  }

  async #send(trip: RoundTrip, connection: StoreConnection, asking: boolean, change: Change) {
    const { script, args, sendBy } = change;
    for (let tries = 1; ; tries++) {
      const known = connection.clock();
      const clock = known instanceof Promise ? await known : known;
      // Nothing was sent, so the failure can be reported at once.
      if (trip.isEnded || !connection.isReady()) throw new NotSent("not connected");
      const sent = performance.now();
      if (sent >= sendBy) throw new NotSent(`${trip.operation}: took too long`);
      const deadline = clock.at(sent + this.#timeouts.left(trip) * CHANGE_SHARE);
      trip.outcome = "unknown";
      const answer = await sendScript(connection.redis, script, argumentsOf(script, args, deadline), asking).catch(
        (error: unknown) => {
          if (isNotSent(error) || (isRefusal(error) && changedNothing(error))) trip.outcome = "not_made";
          if (isNotSent(error) || isRefusal(error)) throw error;
          // Redis may still carry it out, until the deadline. So the call does not fail before its timeout.
          return new Promise<never>(() => {});
        },
      );
      clock.learn(Number(answer[1]), sent, performance.now());
      if (answer[0] !== "late") return answer;
      // Redis' clock was set, or this process was slow to send. Nothing was changed.
      trip.outcome = "not_made";
      const hasTime = !trip.isEnded && this.#timeouts.left(trip) > this.#timeoutMs * (1 - CHANGE_SHARE);
      if (tries === TRIES || !hasTime) {
        throw new NotSent(`${trip.operation}: it reached Redis too late, and was not carried out`);
      }
    }
  }
}

/** Waits for the first that succeeds. @throws what the first of them throws, when none does */
function anyOf<T>(asked: readonly Promise<T>[]): Promise<T> {
  return Promise.any(asked).catch(({ errors }: AggregateError) => {
    throw errors[0];
  });
}

function storeError(error: unknown, outcome: ChangeOutcome | undefined): DomainError {
  if (error instanceof DomainError) return error;
  const message = error instanceof Error ? error.message : String(error);
  // ioredis puts the command with its arguments on the error; the text alone is safe to keep.
  if (message.startsWith("WRONGTYPE")) return new RecordUnreadable(new Error(message));
  return new StoreUnavailable(new Error(explained(message)), outcome);
}

function explained(message: string): string {
  return message.startsWith("MOVED ")
    ? `this is a node of a Cluster, which REDIS_URL names as redis-cluster:// (${message})`
    : message;
}
