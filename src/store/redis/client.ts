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
import {
  type Answer,
  type CommandArgs,
  type CommandName,
  changedNothing,
  isNotSent,
  isRefusal,
  NotSent,
  send,
} from "./commands.ts";
import type { ScriptedRedis } from "./connection.ts";
import { TimedCall, Timeouts } from "./deadlines.ts";
import type { NodeCall, StoreNode, StoreNodes } from "./nodes.ts";

/** Told of every round trip to the store. */
export type StoreObserver = (roundTrip: { operation: string; seconds: number; failed: boolean }) => void;

/** How a client behaves. */
export interface StoreClientOptions {
  /** How long a call may take, in milliseconds. */
  readonly timeoutMs: number;
  readonly observe?: StoreObserver;
}

/** The share of what is left to a call in which Redis may carry out its change; the rest is for the answer. */
const CHANGE_SHARE = 0.9;

/** How often a change is sent in all, when it is too late by Redis' clock though the call has time left. */
const TRIES = 3;

/** The store's connections, with a deadline and one kind of error on every call. */
export class StoreClient implements StoreProbe {
  /** The nodes of this Redis. */
  readonly nodes: StoreNodes;
  readonly #shared: Shared;

  constructor(nodes: StoreNodes, { timeoutMs, observe }: StoreClientOptions) {
    this.nodes = nodes;
    this.#shared = { timeouts: new Timeouts(timeoutMs), observe };
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
    const question = new Question<Answer<Name>>(operation, this.#shared, { command: name, args, outcome });
    return question.answer(this.nodes.at(args[0], question));
  }

  /** Runs a script that changes nothing, as `run` does a command. */
  ask<Name extends string>(
    operation: string,
    script: Script<Name>,
    args: ScriptArgs<Name>,
    outcome?: ChangeOutcome,
  ): Promise<string[]> {
    const sent = { command: script, args: argumentsOf(script, args), outcome };
    const question = new Question<string[]>(operation, this.#shared, sent);
    return question.answer(this.nodes.at(args.key, question));
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
    const change = new Change(operation, this.#shared, { script, args, sendBy });
    return change.answer(this.nodes.at(args.key, change));
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
  async each<T>(operation: string, ask: (redis: ScriptedRedis) => Promise<T>): Promise<readonly T[]> {
    const asked = this.nodes
      .masters()
      .map(({ reads }) => new RoundTrip<T>(operation, this.#shared).answer(ask(reads.redis)));
    const settled = await Promise.allSettled(asked);
    if (settled.every(({ status }) => status === "rejected")) await asked[0];
    return settled.flatMap((each) => (each.status === "fulfilled" ? [each.value] : []));
  }

  /**
   * Asks whether a change could be made, at one of the nodes at least. The command changes nothing, because the key is
   * never there, and so is neither replicated nor written to disk. Yet Redis refuses it as any change: when its memory
   * is full, when it cannot write to disk, when it is a replica or has too few.
   *
   * @throws StoreUnavailable
   */
  async ping(): Promise<void> {
    const masters = this.nodes.masters().filter((node) => node.isReady());
    if (masters.length === 0) throw new StoreUnavailable(new Error("not connected"));
    const asked = masters.map((node) => this.run("ping", "set", [this.nodes.keyOf(node, PROBE_KEY), "1", "XX"]));
    await Promise.any(asked).catch(({ errors }: AggregateError) => {
      throw errors[0];
    });
  }

  /** Closes the connections; calls under way fail. */
  close(): void {
    this.nodes.close();
  }
}

/** What the round trips of a client share. */
interface Shared {
  readonly timeouts: Timeouts;
  readonly observe: StoreObserver | undefined;
}

/** A call to the store that is under way. Its time begins when it is made. */
class RoundTrip<T> extends TimedCall {
  readonly operation: string;
  /** What is known of the change; undefined when the call makes none. */
  outcome: ChangeOutcome | undefined;
  isEnded = false;
  /** Whether the change is known to be made. */
  protected isMade = false;
  protected readonly timeouts: Timeouts;
  readonly #observe: StoreObserver | undefined;
  readonly #started = performance.now();
  #reject: ((error: DomainError) => void) | undefined;

  constructor(operation: string, { timeouts, observe }: Shared) {
    super();
    this.operation = operation;
    this.timeouts = timeouts;
    this.#observe = observe;
    timeouts.add(this, this.#started);
  }

  /** The answer, or a failure at the timeout. To be called once. */
  answer(sent: Promise<T>): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      this.#reject = reject;
      sent.then(
        (value) => this.#end(false) && resolve(value),
        (error: unknown) => this.#end(true) && reject(storeError(error, this.outcome)),
      );
    });
  }

  override expire(): void {
    this.#finish(true);
    const cause = new Error(`${this.operation}: no answer in time`);
    this.#reject?.(this.isMade ? new TooFewReplicas(cause) : new StoreUnavailable(cause, this.outcome));
  }

  /** @returns false for what comes after the timeout, which has been counted as a failure already */
  #end(failed: boolean): boolean {
    if (this.isEnded) return false;
    this.timeouts.remove(this);
    this.#finish(failed);
    return true;
  }

  #finish(failed: boolean): void {
    this.isEnded = true;
    this.#observe?.({
      operation: this.operation,
      seconds: (performance.now() - this.#started) / 1000,
      failed,
    });
  }
}

interface QuestionOptions {
  readonly command: CommandName | Script;
  readonly args: readonly unknown[];
  readonly outcome: ChangeOutcome | undefined;
}

/** What changes nothing that has to last. */
class Question<T> extends RoundTrip<T> implements NodeCall<T> {
  readonly #command: CommandName | Script;
  readonly #args: readonly unknown[];

  constructor(operation: string, shared: Shared, { command, args, outcome }: QuestionOptions) {
    super(operation, shared);
    this.outcome = outcome;
    this.#command = command;
    this.#args = args;
  }

  sendTo({ reads }: StoreNode, asking: boolean): Promise<T> {
    return send(reads.redis, this.#command, this.#args, asking);
  }
}

/** A change: one of the scripts that take a deadline. */
class Change extends RoundTrip<string[]> implements NodeCall<string[]> {
  readonly #script: Script;
  readonly #args: ScriptArgs<string>;
  readonly #sendBy: number;

  constructor(operation: string, shared: Shared, { script, args, sendBy }: ChangeOptions) {
    super(operation, shared);
    this.outcome = "not_made";
    this.#script = script;
    this.#args = args;
    this.#sendBy = sendBy;
  }

  async sendTo({ changes, replicas }: StoreNode, asking: boolean): Promise<string[]> {
    for (let tries = 1; ; tries++) {
      const { clock } = changes;
      // Nothing was sent, so the failure can be reported at once.
      if (clock === undefined) throw new NotSent("not connected");
      const sent = performance.now();
      if (sent >= this.#sendBy) throw new NotSent(`${this.operation}: took too long`);
      const deadline = clock.at(sent + this.timeouts.left(this) * CHANGE_SHARE);
      this.outcome = "unknown";
      let answer: string[];
      try {
        const args = argumentsOf(this.#script, this.#args, deadline);
        answer = await send(changes.redis, this.#script, args, asking);
      } catch (error) {
        if (isNotSent(error) || (isRefusal(error) && changedNothing(error))) this.outcome = "not_made";
        if (isNotSent(error) || isRefusal(error)) throw error;
        // Redis may still carry it out, until the deadline. So the call does not fail before its timeout.
        return new Promise(() => {});
      }
      clock.learn(Number(answer[1]), sent, performance.now());
      if (answer[0] !== "late") {
        this.isMade = MADE.has(answer[0]);
        if (this.isMade && replicas) await replicas.confirm(this.timeouts.left(this));
        return answer;
      }
      // Redis' clock was set, or this process was slow to send. Nothing was changed.
      this.outcome = "not_made";
      const hasTime = !this.isEnded && this.timeouts.left(this) > this.timeouts.timeoutMs * (1 - CHANGE_SHARE);
      if (tries === TRIES || !hasTime) {
        throw new NotSent(`${this.operation}: it reached Redis too late, and was not carried out`);
      }
    }
  }
}

interface ChangeOptions {
  readonly script: Script;
  readonly args: ScriptArgs<string>;
  /** The instant of `performance.now()` before which it must be sent. */
  readonly sendBy: number;
}

function storeError(error: unknown, outcome: ChangeOutcome | undefined): DomainError {
  if (error instanceof DomainError) return error;
  const message = error instanceof Error ? error.message : String(error);
  // ioredis puts the command with its arguments on the error; the text alone is safe to keep.
  if (message.startsWith("WRONGTYPE")) return new RecordUnreadable(new Error(message));
  const explained = message.startsWith("MOVED ")
    ? `this is a node of a Cluster, which REDIS_URL names as redis-cluster:// (${message})`
    : message;
  return new StoreUnavailable(new Error(explained), outcome);
}
