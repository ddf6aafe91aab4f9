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
import { PROBE_KEY } from "./requirements.ts";
import { argumentsOf, defineScript, type Script, type ScriptArgs } from "./script.ts";
import type { RedisSecrets } from "./url.ts";

/** Receives every round trip to the store. */
export type StoreObserver = (roundTrip: { operation: string; seconds: number; failed: boolean }) => void;

/** The options of a client. */
export interface StoreClientOptions {
  /** The timeout of a call, in milliseconds. */
  readonly timeoutMs: number;
  readonly observe?: StoreObserver;
  /** Returns the observer of one round trip when it starts. Default: none. */
  readonly traceOf?: (() => StoreObserver | undefined) | undefined;
  /** Changes the secrets of new connections. Default: does nothing. */
  readonly changeSecrets?: (changed: Partial<RedisSecrets>) => Promise<void>;
  /** Checks the identity of the data. Default: no check. */
  readonly data?: DataCheck | undefined;
}

/** Checks whether the data in Redis has the identity that this process has stored. */
export interface DataCheck {
  /** The error with which changes are refused. Undefined if they are accepted. */
  refusal(): StoreUnavailable | undefined;
  /** Checks the data now. @throws StoreUnavailable if Redis does not answer */
  check(): Promise<void>;
}

/**
 * A change without an effect, which Redis neither replicates nor writes to disk. Redis refuses it like other changes: if
 * its memory is full, its disk fails, it is a replica, or it has too few replicas.
 */
export const PROBE_CHANGE = defineScript("change", probe, { keys: "key" });

/** The share of a call's remaining time in which Redis may run the change. The rest of the time is for the answer. */
const CHANGE_SHARE = 0.9;

/** The number of checks for expired calls within the timeout. The interval is at least 5 ms and at most 50 ms. */
const CHECKS = 20;

/** The maximum number of attempts of a change. A change that reached Redis after its deadline is repeated if the call has time left. */
const MAX_ATTEMPTS = 3;

/** The connections to the store. Every call has a timeout, and fails with StoreUnavailable or RecordUnreadable. */
export class StoreClient implements StoreProbe {
  /** The nodes of this Redis. */
  readonly nodes: StoreNodes;
  /**
   * Changes the secrets of new connections. Open connections stay open. Rejects with StoreMisconfigured if Redis does not accept
   * the password.
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

  /** Returns a client with other options on the same connections. */
  with(changed: Partial<StoreClientOptions>): StoreClient {
    return new StoreClient(this.nodes, { ...this.#options, ...changed });
  }

  /**
   * Checks the data before the service reports that something is missing, or creates it.
   *
   * @throws StoreUnavailable if the data in Redis does not have the identity that this process has stored
   */
  async confirmMissing(): Promise<void> {
    await this.#data?.check();
    const refusal = this.#data?.refusal();
    if (refusal) throw refusal;
  }

  /**
   * Runs one read command at the node of its key.
   *
   * @param args of the command. The first is the key
   * @param outcome the outcome of the change to which this read belongs, if the read fails. Default: none
   * @throws StoreUnavailable if it fails or exceeds the timeout; RecordUnreadable if the key has another type
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
   * Runs a read script at the node of its first key. It fails like `run`.
   *
   * @param whileMoving reads the same with single commands. It is called while the slot of the keys is migrating, when Redis
   *   refuses scripts. Default: the call waits for the end of the migration
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
   * Makes a change in one round trip, by a script with a deadline at the node of its first key. With `minReplicas`, a second round
   * trip waits for the replicas. The script is sent again if it was too late by Redis' clock, or if another node has the key. After the
   * call has failed with StoreUnavailable, Redis no longer makes the change. The outcome of the error states whether Redis may have
   * made it before.
   *
   * @throws the errors of `run`; TooFewReplicas if the change is committed
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
   * Queries every node that has slots. Leaves out nodes that fail or exceed the timeout.
   *
   * @throws StoreUnavailable if all nodes fail
   */
  async each<T>(operation: string, ask: (redis: ScriptedRedis, name: string) => Promise<T>): Promise<readonly T[]> {
    const requested = this.nodes
      .masters()
      .map(({ reads, name }) => new RoundTrip<T>(operation, this.#shared).answer(ask(reads.redis, name)));
    const settled = await Promise.allSettled(requested);
    if (settled.every(({ status }) => status === "rejected")) await requested[0];
    return settled.flatMap((each) => (each.status === "fulfilled" ? [each.value] : []));
  }

  /**
   * Checks that at least one node answers reads, or that all nodes accept changes. One node is enough for reads, because the
   * service uses the other nodes while one is replaced.
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

  /** Closes the connections. Calls in flight fail. */
  close(): void {
    this.isClosed = true;
    this.nodes.close();
  }
}

/** The state that all round trips of a client share. */
interface Shared {
  readonly timeouts: Timeouts;
  readonly observe: StoreObserver | undefined;
  readonly traceOf?: (() => StoreObserver | undefined) | undefined;
}

/** The command or script of a round trip. */
interface Sent {
  readonly command: CommandName | Script;
  readonly args: readonly unknown[];
  readonly outcome: ChangeOutcome | undefined;
  readonly whileMoving?: (() => Promise<unknown>) | undefined;
}

/** A read in flight. Its timeout starts with its creation. */
class RoundTrip<T> implements NodeCall<T>, TimedCall {
  readonly operation: string;
  /** The outcome of the change. Undefined if the call makes none. */
  outcome: ChangeOutcome | undefined;
  previous: TimedCall | undefined;
  next: TimedCall | undefined;
  end: number;
  /** Whether Redis answered that the change is committed. */
  protected isMade = false;
  protected readonly timeouts: Timeouts;
  private isEnded = false;
  private readonly observe: StoreObserver | undefined;
  private readonly trace: StoreObserver | undefined;
  private readonly sent: Sent | undefined;
  private readonly started = performance.now();
  private reject: ((error: DomainError) => void) | undefined = undefined;

  /** @param sent undefined if the caller or a subclass sends the command */
  constructor(operation: string, { timeouts, observe, traceOf }: Shared, sent?: Sent) {
    this.operation = operation;
    this.outcome = sent?.outcome;
    this.timeouts = timeouts;
    this.observe = observe;
    this.trace = traceOf?.();
    this.sent = sent;
    this.end = timeouts.add(this, this.started);
  }

  /** Whether a repeated command can be answered before the timeout. */
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

  /** Resolves with the answer, or rejects at the timeout. Called once. */
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

  /** @returns false after the timeout, which has already counted the round trip as a failure */
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

/** A change in flight. */
class Change extends RoundTrip<string[]> {
  private readonly change: ChangeOptions;

  constructor(operation: string, shared: Shared, change: ChangeOptions) {
    super(operation, shared);
    this.outcome = "not_made";
    this.change = change;
  }

  override async sendTo({ changes, replicas }: StoreNode, asking: boolean): Promise<string[]> {
    const { script, args } = this.change;
    for (let attempts = 1; ; attempts++) {
      const { clock } = changes;
      // Nothing was sent, so the call fails at once.
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
        // Redis may still run the script until the deadline. So the call fails at its timeout, not before.
        return new Promise(() => {});
      }
      clock.learn(Number(answer[1]), sent, performance.now());
      if (answer[0] !== "late") {
        this.isMade = answer[0] === "done";
        if (this.isMade && replicas) await replicas.confirm(this.timeouts.left(this));
        return answer;
      }
      // Redis' clock was set, or this process sent the script late. The script changed nothing.
      this.outcome = "not_made";
      if (attempts === MAX_ATTEMPTS || !this.hasTime) {
        throw new NotSent(`${this.operation}: the change reached Redis after its deadline, and was not made`);
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
  // An error of ioredis has the command with its arguments. Only the message is safe to keep.
  const code = errorCodeOf(error);
  if (code === "WRONGTYPE") return new RecordUnreadable(new Error(message));
  const explained =
    code === "MOVED" ? `this is a node of a Cluster: begin REDIS_URL with redis-cluster:// (${message})` : message;
  return new StoreUnavailable(new Error(explained), outcome, faultOf(error, code));
}

/** The faults by the error code of Redis. */
const FAULT_OF_CODE: { readonly [word: string]: StoreFault } = {
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

/** The fault of a failed round trip. @param code the error code of Redis */
function faultOf(error: unknown, code: string | undefined): StoreFault {
  if (!isRefusal(error)) return "not_connected";
  return FAULT_OF_CODE[code ?? ""] ?? "refused";
}

/** Commands with any arguments. */
type AnyCommands<T> = { readonly [name in CommandName]: (...args: readonly unknown[]) => Promise<T> };

/**
 * Sends a command or a script.
 *
 * @param args the arguments of a command, its key first, or of a script, as `argumentsOf` returns them
 * @param asking whether the slot of the key is migrating to this node of a Cluster (ASK). The key has arrived, but other keys of
 *   the slot may not have arrived. If a script needs such a key, it could create a group twice, or not find a token. So only
 *   commands and scripts with one key are sent. Other scripts wait until the whole slot has arrived.
 * @throws KeysMoving if the script must wait
 */
export function send<T>(
  redis: Pick<ScriptedRedis, "asking" | "runScript">,
  command: CommandName | Script,
  args: readonly unknown[],
  asking = false,
): Promise<T> {
  const isScript = typeof command !== "string";
  if (asking) {
    if (isScript && !command.singleKey) return Promise.reject(new KeysMoving());
    // If ASKING fails, the command after it fails, too.
    redis.asking().catch(() => {});
  }
  if (isScript) return redis.runScript(command, args) as Promise<T>;
  return (redis as unknown as AnyCommands<T>)[command](...args);
}

/** A call with a timeout. */
export interface TimedCall {
  /** The neighbors in the list of `Timeouts`. */
  previous: TimedCall | undefined;
  next: TimedCall | undefined;
  /** The time of its timeout, by the clock of `Timeouts`. */
  end: number;
  /** Called once at the timeout. It must remove the call from the list. */
  expire(): void;
}

/**
 * Expires calls at their timeout. All calls have the same timeout, so they expire in the order of their start: one list and one
 * timer are enough.
 *
 * A `Set` would keep the order, too. But its discarded tables reference calls, and V8 promotes these calls to the old generation
 * with the tables. That doubled the garbage to collect.
 *
 * The clock stops while the process is too busy to read answers, because Redis does not cause this delay.
 */
export class Timeouts {
  /** The timeout of a call, in milliseconds. */
  readonly timeoutMs: number;
  readonly #checkMs: number;
  /** The two ends of the list. */
  #first: TimedCall | undefined;
  #last: TimedCall | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** The time by `performance.now()` at which the next step should run: the timer, or the check after it. */
  #due = 0;
  /** The sum of the times in which the process was too busy, in milliseconds. */
  #busyMs = 0;

  constructor(timeoutMs: number) {
    this.timeoutMs = timeoutMs;
    this.#checkMs = Math.min(Math.max(timeoutMs / CHECKS, 5), 50);
  }

  /** Adds a call. @param now `performance.now()`. @returns its `end` */
  add(call: TimedCall, now: number): number {
    call.previous = this.#last;
    call.next = undefined;
    if (this.#last) this.#last.next = call;
    else this.#first = call;
    this.#last = call;
    if (this.#timer === undefined) this.#wait(now);
    return now - this.#busyMs + this.timeoutMs;
  }

  /** Removes an added call. Called once. */
  remove(call: TimedCall): void {
    if (call.previous) call.previous.next = call.next;
    else this.#first = call.next;
    if (call.next) call.next.previous = call.previous;
    else this.#last = call.previous;
    call.previous = undefined;
    call.next = undefined;
  }

  /** The remaining time of an added call, in milliseconds. Busy times of the process are added to it. */
  left(call: TimedCall): number {
    return call.end - (performance.now() - this.#busyMs);
  }

  #wait(now: number): void {
    this.#due = now + this.#checkMs;
    this.#timer = setTimeout(this.#fire, this.#checkMs);
  }

  readonly #fire = (): void => {
    this.#passBusyTime();
    this.#due = performance.now();
    // The check runs after the reads of this turn, so an answer that has arrived is not late.
    setImmediate(this.#check);
  };

  readonly #check = (): void => {
    this.#passBusyTime();
    const now = performance.now();
    while (this.#first && this.#first.end <= now - this.#busyMs) this.#first.expire();
    if (this.#first) this.#wait(now);
    else this.#timer = undefined;
  };

  /** Stops the clock for the delay of a late step. A small delay is normal and does not count. */
  #passBusyTime(): void {
    const late = performance.now() - this.#due;
    if (late > this.#checkMs) this.#busyMs += late;
  }
}
