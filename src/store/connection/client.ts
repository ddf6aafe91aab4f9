import {
  type ChangeOutcome,
  DomainError,
  RecordUnreadable,
  type StoreFault,
  StoreUnavailable,
  TooFewReplicas,
} from "../../domain/errors.ts";
import type { ReadyKind, StoreProbe } from "../../domain/store.ts";
import probe from "../scripts/probe.lua" with { type: "text" };
import type { Answer, CommandArgs, CommandName } from "./commands.ts";
import type { ScriptedRedis } from "./connection.ts";
import {
  changedNothing,
  errorCodeOf,
  isMoving,
  isNotSent,
  isRefusal,
  KeysMoving,
  messageOf,
  NotConfirmed,
  NotSent,
} from "./errors.ts";
import type { NodeCall, StoreNode, StoreNodes } from "./nodes.ts";
import { argumentsOf, defineScript, type Script, type ScriptArgs } from "./script.ts";
import type { RedisSecrets } from "./url.ts";

/** Told of every round trip to the store. */
export type StoreObserver = (roundTrip: { operation: string; seconds: number; failed: boolean }) => void;

/** How a client behaves. */
export interface StoreClientOptions {
  /** How long a call may take, in milliseconds. */
  readonly timeoutMs: number;
  readonly observe?: StoreObserver;
  /** Returns the observer of one round trip when it starts. Default: none. */
  readonly traceOf?: (() => StoreObserver | undefined) | undefined;
  /** Default: there are none to change. */
  readonly changeSecrets?: (changed: Partial<RedisSecrets>) => Promise<void>;
  /** Knows whether Redis holds the data that this process knows. Default: it always does. */
  readonly data?: DataCheck | undefined;
}

/** Knows whether Redis holds the data that this process knows. */
export interface DataCheck {
  /** Why changes are refused; undefined: they are not. */
  refusal(): StoreUnavailable | undefined;
  /** Checks it now. @throws StoreUnavailable if Redis does not answer */
  check(): Promise<void>;
}

/** A key that never exists. Checks read it, and change it only if it exists. */
export const PROBE_KEY = "ug:probe";

/**
 * A change that changes nothing: it is neither replicated nor written to disk. Redis refuses it as it refuses every other
 * change: if its memory is full, if it cannot write to disk, if it is a replica or has too few replicas.
 */
export const PROBE_CHANGE = defineScript("change", probe, { keys: ["key"], singleKey: true });

/** The share of a call's remaining time in which Redis may carry out its change; the rest is for the answer. */
const CHANGE_SHARE = 0.9;

/** How many times within the timeout to look for calls that took too long: a look every 5 to 50 ms. */
const LOOKS = 20;

/** How often a change is sent at most. It is sent again when it was too late by Redis' clock, but the call has time left. */
const TRIES = 3;

/** The store's connections, with a deadline and one kind of error on every call. */
export class StoreClient implements StoreProbe {
  /** The nodes of this Redis. */
  readonly nodes: StoreNodes;
  /**
   * Has connections that begin from now on use other secrets; those that are open stay. Rejects with StoreMisconfigured
   * when Redis does not accept the password.
   */
  readonly changeSecrets: (changed: Partial<RedisSecrets>) => Promise<void>;
  /** Whether `close` was called. */
  isClosed = false;
  readonly #options: StoreClientOptions;
  readonly #shared: Shared;
  readonly #data: DataCheck | undefined;

  constructor(nodes: StoreNodes, options: StoreClientOptions) {
    const { timeoutMs, observe, traceOf, data, changeSecrets = async () => {} } = options;
    this.nodes = nodes;
    this.changeSecrets = changeSecrets;
    this.#options = options;
    this.#data = data;
    this.#shared = { timeouts: new Timeouts(timeoutMs), observe, traceOf };
  }

  /** The same connections, with traces. @param traceOf returns the observer of a round trip when it starts */
  tracedBy(traceOf: () => StoreObserver | undefined): StoreClient {
    return new StoreClient(this.nodes, { ...this.#options, traceOf });
  }

  /** The same connections, for changes whatever data Redis holds. */
  unguarded(): StoreClient {
    return new StoreClient(this.nodes, { ...this.#options, data: undefined });
  }

  /**
   * To be called if something is missing, before its caller learns that or it is created.
   *
   * @throws StoreUnavailable when Redis does not hold the data that this process knows
   */
  async confirmMissing(): Promise<void> {
    await this.#data?.check();
    const refusal = this.#data?.refusal();
    if (refusal) throw refusal;
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
    const call = new RoundTrip<Answer<Name>>(operation, this.#shared, { command: name, args, outcome });
    return call.answer(this.nodes.at(args[0], call));
  }

  /**
   * Runs a script that changes nothing, as `run` does a command.
   *
   * @param whileMoving reads the same by single commands; called if the slot of the keys is on its way to another node of a
   *   Cluster, where scripts are refused. Default: the call waits for the end of the move
   */
  ask<Key extends string, Arg extends string>(
    operation: string,
    script: Script<Key, Arg>,
    args: ScriptArgs<Key, Arg>,
    { outcome, whileMoving }: { outcome?: ChangeOutcome; whileMoving?: () => Promise<string[]> } = {},
  ): Promise<string[]> {
    const list = argumentsOf(script, args);
    const call = new RoundTrip<string[]>(operation, this.#shared, {
      command: script,
      args: list,
      outcome,
      whileMoving,
    });
    return call.answer(this.nodes.at(list[1] as string, call));
  }

  /**
   * Makes a change at the node of its key, by a script that takes a deadline, in one round trip. When the call fails with
   * StoreUnavailable, the change was made before that or never will be; the error's outcome says what is known. With
   * `minReplicas` it waits for the replicas in a second round trip. It is sent again when it reached Redis too late, or
   * has to go to another node.
   *
   * @throws as `run`; TooFewReplicas when the change was made
   */
  change<Key extends string, Arg extends string>(
    operation: string,
    script: Script<Key, Arg>,
    args: ScriptArgs<Key, Arg>,
  ): Promise<string[]> {
    const refusal = this.#data?.refusal();
    if (refusal) return Promise.reject(refusal);
    const change = new Change(operation, this.#shared, { script, args });
    const values: ScriptArgs = args;
    return change.answer(this.nodes.at(values[script.keys[0] as string] as string, change));
  }

  /**
   * Asks every node that has keys, and leaves out those that fail or take longer than the timeout.
   *
   * @throws StoreUnavailable when all do
   */
  async each<T>(operation: string, ask: (redis: ScriptedRedis, name: string) => Promise<T>): Promise<readonly T[]> {
    const asked = this.nodes
      .masters()
      .map(({ reads, name }) => new RoundTrip<T>(operation, this.#shared).answer(ask(reads.redis, name)));
    const settled = await Promise.allSettled(asked);
    if (settled.every(({ status }) => status === "rejected")) await asked[0];
    return settled.flatMap((each) => (each.status === "fulfilled" ? [each.value] : []));
  }

  /**
   * Checks that reads are answered by at least one node, because callers of the other nodes must be served while one is
   * replaced; or that changes are accepted by all nodes.
   *
   * @throws StoreUnavailable; TooFewReplicas if changes are accepted but not confirmed
   */
  async check(kind: ReadyKind): Promise<void> {
    const ready = this.nodes.masters().filter((node) => node.isReady());
    if (ready.length === 0 || (kind === "changes" && !this.nodes.isReady()))
      throw new StoreUnavailable(new Error("not connected"), undefined, "not_connected");
    const keys = ready.map((node) => this.nodes.keyOf(node, PROBE_KEY));
    if (kind === "changes") {
      await Promise.all(keys.map((key) => this.change("check-changes", PROBE_CHANGE, { key })));
      return;
    }
    await Promise.any(keys.map((key) => this.run("check-reads", "get", [key]))).catch(({ errors }: AggregateError) => {
      throw errors[0];
    });
  }

  /** Closes the connections; calls under way fail. */
  close(): void {
    this.isClosed = true;
    this.nodes.close();
  }
}

/** What the round trips of a client share. */
interface Shared {
  readonly timeouts: Timeouts;
  readonly observe: StoreObserver | undefined;
  readonly traceOf?: (() => StoreObserver | undefined) | undefined;
}

/** What a round trip sends to the node of its key. */
interface Sent {
  readonly command: CommandName | Script;
  readonly args: readonly unknown[];
  readonly outcome: ChangeOutcome | undefined;
  readonly whileMoving?: (() => Promise<unknown>) | undefined;
}

/** A call to the store that is under way. Its time begins when it is made. This one changes nothing that has to last. */
class RoundTrip<T> implements NodeCall<T>, TimedCall {
  readonly operation: string;
  /** What is known of the change; undefined when the call makes none. */
  outcome: ChangeOutcome | undefined;
  previous: TimedCall | undefined;
  next: TimedCall | undefined;
  end: number;
  /** Whether the change is known to be made. */
  protected isMade = false;
  protected readonly timeouts: Timeouts;
  private isEnded = false;
  private readonly observe: StoreObserver | undefined;
  private readonly trace: StoreObserver | undefined;
  private readonly sent: Sent | undefined;
  private readonly started = performance.now();
  private reject: ((error: DomainError) => void) | undefined = undefined;

  /** @param sent default: what its caller or a subclass sends */
  constructor(operation: string, { timeouts, observe, traceOf }: Shared, sent?: Sent) {
    this.operation = operation;
    this.outcome = sent?.outcome;
    this.timeouts = timeouts;
    this.observe = observe;
    this.trace = traceOf?.();
    this.sent = sent;
    this.end = timeouts.add(this, this.started);
  }

  /** So that what is sent again and refused is known to be refused before the timeout. */
  get hasTime(): boolean {
    return !this.isEnded && this.timeouts.left(this) > this.timeouts.timeoutMs * (1 - CHANGE_SHARE);
  }

  sendTo({ reads: { redis } }: StoreNode, asking: boolean): Promise<T> {
    const { command, args, whileMoving } = this.sent as Sent;
    if (typeof command === "string" && !asking) return (redis as unknown as AnyCommands<T>)[command](...args);
    const answer = send<T>(redis, command, args, asking);
    if (!whileMoving) return answer;
    return answer.catch((error: unknown) => {
      if (!isMoving(error)) throw error;
      return whileMoving() as Promise<T>;
    });
  }

  /** The answer, or a failure at the timeout. To be called once. */
  answer(sent: Promise<T>): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      this.reject = reject;
      sent.then(
        (value) => this.finish(false) && resolve(value),
        (error: unknown) => this.finish(true) && reject(storeError(error, this.outcome)),
      );
    });
  }

  expire(): void {
    this.finish(true);
    const cause = new Error(`${this.operation}: no answer in time`);
    this.reject?.(this.isMade ? new TooFewReplicas(cause) : new StoreUnavailable(cause, this.outcome, "timeout"));
  }

  /** @returns false after the timeout: the round trip has already been counted as a failure */
  private finish(failed: boolean): boolean {
    if (this.isEnded) return false;
    this.isEnded = true;
    this.timeouts.remove(this);
    const seconds = (performance.now() - this.started) / 1000;
    const roundTrip = { operation: this.operation, seconds, failed };
    this.observe?.(roundTrip);
    this.trace?.(roundTrip);
    return true;
  }
}

/** A change: one of the scripts that take a deadline. */
class Change extends RoundTrip<string[]> {
  private readonly change: ChangeOptions;

  constructor(operation: string, shared: Shared, change: ChangeOptions) {
    super(operation, shared);
    this.outcome = "not_made";
    this.change = change;
  }

  override async sendTo({ changes, replicas }: StoreNode, asking: boolean): Promise<string[]> {
    const { script, args } = this.change;
    for (let tries = 1; ; tries++) {
      const { clock } = changes;
      // Nothing was sent, so the failure can be reported at once.
      if (clock === undefined) throw new NotSent("not connected");
      const sent = performance.now();
      const deadline = clock.at(sent + this.timeouts.left(this) * CHANGE_SHARE);
      this.outcome = "unknown";
      let answer: string[];
      try {
        answer = await send(changes.redis, script, argumentsOf(script, args, deadline), asking);
      } catch (error) {
        if (isNotSent(error) || (isRefusal(error) && changedNothing(error))) this.outcome = "not_made";
        if (isNotSent(error) || isRefusal(error)) throw error;
        // Redis may still carry it out, until the deadline. So the call does not fail before its timeout.
        return new Promise(() => {});
      }
      clock.learn(Number(answer[1]), sent, performance.now());
      if (answer[0] !== "late") {
        this.isMade = answer[0] === "done";
        if (this.isMade && replicas) await replicas.confirm(this.timeouts.left(this));
        return answer;
      }
      // Redis' clock was set, or this process was slow to send. Nothing was changed.
      this.outcome = "not_made";
      if (tries === TRIES || !this.hasTime) {
        throw new NotSent(`${this.operation}: it reached Redis too late, and was not carried out`);
      }
    }
  }
}

interface ChangeOptions {
  readonly script: Script;
  readonly args: ScriptArgs;
}

function storeError(error: unknown, outcome: ChangeOutcome | undefined): DomainError {
  if (error instanceof DomainError) return error;
  if (error instanceof NotConfirmed) return new TooFewReplicas(error.cause);
  const message = messageOf(error);
  // ioredis puts the command with its arguments on the error; the text alone is safe to keep.
  const refusal = errorCodeOf(error);
  if (refusal === "WRONGTYPE") return new RecordUnreadable(new Error(message));
  const explained =
    refusal === "MOVED"
      ? `this is a node of a Cluster, which REDIS_URL names as redis-cluster:// (${message})`
      : message;
  return new StoreUnavailable(new Error(explained), outcome, faultOf(error, refusal));
}

/** The faults that Redis reports by the first word of its refusal. */
const FAULT_OF_WORD: { readonly [word: string]: StoreFault } = {
  OOM: "memory_full",
  MISCONF: "cannot_save",
  READONLY: "read_only",
  NOREPLICAS: "too_few_replicas",
  LOADING: "loading",
  BUSY: "busy",
  CLUSTERDOWN: "cluster_down",
  MASTERDOWN: "master_down",
  NOPERM: "denied",
  NOAUTH: "denied",
};

/** Why a round trip failed. @param refusal the word by which Redis refused it */
function faultOf(error: unknown, refusal: string | undefined): StoreFault {
  if (!isRefusal(error)) return "not_connected";
  return FAULT_OF_WORD[refusal ?? ""] ?? "refused";
}

/** Commands, whatever they take. */
type AnyCommands<T> = { readonly [name in CommandName]: (...args: readonly unknown[]) => Promise<T> };

/**
 * Sends a command, or a script, which the connection knows as a command from the first time on.
 *
 * @param args of a command, its key first; of a script as `argumentsOf` makes them
 * @param asking whether the slot of its key is on its way to this node of a Cluster (ASK). The key has arrived, but another
 *   key of the slot may not have: to a script it would be missing, so that a group would be created a second time, or a token
 *   not found. So only what touches one key is sent; for all else the whole slot has to arrive first.
 * @throws KeysMoving
 */
export function send<T>(
  redis: Pick<ScriptedRedis, "asking" | "defineScript">,
  command: CommandName | Script,
  args: readonly unknown[],
  asking = false,
): Promise<T> {
  const isScript = typeof command !== "string";
  const name = isScript ? command.name : command;
  if (asking) {
    if (isScript && !command.singleKey) return Promise.reject(new KeysMoving());
    // If ASKING fails, so does the command that follows it.
    redis.asking().catch(() => {});
  }
  if (isScript && !(name in redis)) redis.defineScript(name, command.lua);
  return (redis as unknown as AnyCommands<T>)[name as CommandName](...args);
}

/** A call that may take no longer than the timeout. */
export interface TimedCall {
  /** Before and behind it in the list of its `Timeouts`. */
  previous: TimedCall | undefined;
  next: TimedCall | undefined;
  /** When it has taken too long, by the clock of its `Timeouts`. */
  end: number;
  /** Called once, when it takes too long; removes it. */
  expire(): void;
}

/**
 * Ends calls that take too long. All have the same time, so that they end in the order of their beginning: a list and
 * one timer serve them all.
 *
 * A `Set` would keep the order, too. But the tables that it discards hold the calls that were under way then, and once
 * they are old to V8, so are those calls and all that they hold: twice as much garbage to collect.
 *
 * The clock stands still while the process is too busy to read answers: that delay is not Redis' fault.
 */
export class Timeouts {
  /** How long a call may take, in milliseconds. */
  readonly timeoutMs: number;
  readonly #lookMs: number;
  /** Begins and ends the list. */
  #first: TimedCall | undefined;
  #last: TimedCall | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** When the next step, the timer or the look that follows it, should run, by `performance.now()`. */
  #due = 0;
  /** For how long the process has been too busy, in milliseconds. */
  #busyMs = 0;

  constructor(timeoutMs: number) {
    this.timeoutMs = timeoutMs;
    this.#lookMs = Math.min(Math.max(timeoutMs / LOOKS, 5), 50);
  }

  /** @param now `performance.now()`. @returns its `end` */
  add(call: TimedCall, now: number): number {
    call.previous = this.#last;
    call.next = undefined;
    if (this.#last) this.#last.next = call;
    else this.#first = call;
    this.#last = call;
    if (this.#timer === undefined) this.#wait(now);
    return now - this.#busyMs + this.timeoutMs;
  }

  /** Removes a call that was added; to be called once. */
  remove(call: TimedCall): void {
    if (call.previous) call.previous.next = call.next;
    else this.#first = call.next;
    if (call.next) call.next.previous = call.previous;
    else this.#last = call.previous;
    call.previous = undefined;
    call.next = undefined;
  }

  /**
   * How long a call that was added may still take, in milliseconds. It may get longer while the process is busy, never
   * shorter.
   */
  left(call: TimedCall): number {
    return call.end - (performance.now() - this.#busyMs);
  }

  #wait(now: number): void {
    this.#due = now + this.#lookMs;
    this.#timer = setTimeout(this.#fire, this.#lookMs);
  }

  readonly #fire = (): void => {
    this.#passBusyTime();
    this.#due = performance.now();
    // After the reads of this turn: an answer that has arrived is not late.
    setImmediate(this.#look);
  };

  readonly #look = (): void => {
    this.#passBusyTime();
    const now = performance.now();
    while (this.#first && this.#first.end <= now - this.#busyMs) this.#first.expire();
    if (this.#first) this.#wait(now);
    else this.#timer = undefined;
  };

  /** Stops the clock for as long as a step came late. A small delay is normal, and does not count. */
  #passBusyTime(): void {
    const late = performance.now() - this.#due;
    if (late > this.#lookMs) this.#busyMs += late;
  }
}
