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
  NotSent,
} from "./errors.ts";
import type { NodeCall, StoreNode, StoreNodes } from "./nodes.ts";
import { PROBE_KEY } from "./requirements.ts";
import { argumentsOf, defineScript, type Script, type ScriptArgs } from "./script.ts";
import type { RedisSecrets } from "./url.ts";

/** Receives the result of each round trip to the store. */
export type StoreObserver = (roundTrip: { operation: string; seconds: number; failed: boolean }) => void;

export interface StoreClientOptions {
  /** The timeout of a call, in milliseconds. */
  readonly timeoutMs: number;
  readonly observe?: StoreObserver;
  /** Called at the start of each round trip. Returns an observer of that round trip. Default: no observer. */
  readonly traceOf?: (() => StoreObserver | undefined) | undefined;
  /** Changes the secrets of new connections. Default: no effect. */
  readonly changeSecrets?: (secrets: RedisSecrets) => Promise<void>;
  /** Checks the identity of the data. Default: no check. */
  readonly data?: DataCheck | undefined;
}

/** Checks whether the data in Redis has the identity that this process has in memory. */
export interface DataCheck {
  /** Returns the error with which this process refuses changes. Returns undefined if the process accepts changes. */
  refusal(): StoreUnavailable | undefined;
  /** Checks the identity of the data now. @throws StoreUnavailable if Redis does not answer */
  check(): Promise<void>;
}

/**
 * A change that has no effect. Redis neither replicates this change nor writes it to disk. Redis refuses this change
 * under the same conditions as other changes, such as full memory or too few replicas.
 */
export const PROBE_CHANGE = defineScript("change", probe, { keys: "key" });

/** Redis may start a change only in the first 90 % of the call's remaining time. The last 10 % are for the answer. */
const CHANGE_SHARE = 0.9;

/** The number of checks for expired calls within one timeout. The interval between checks is 5 to 50 ms. */
const CHECKS = 20;

/** The maximum number of attempts of a change. If a change reached Redis too late, the change is sent again. */
const MAX_ATTEMPTS = 3;

/**
 * Sends calls to the store. Every call has a timeout. The errors are StoreUnavailable, RecordUnreadable and
 * TooFewReplicas.
 */
export class StoreClient implements StoreProbe {
  readonly nodes: StoreNodes;
  isClosed = false;
  readonly #options: StoreClientOptions;
  readonly #shared: Shared;

  constructor(nodes: StoreNodes, options: StoreClientOptions) {
    const { timeoutMs, observe, traceOf } = options;
    this.nodes = nodes;
    this.#options = options;
    this.#shared = { timeouts: new Timeouts(timeoutMs), observe, traceOf };
  }

  /** Changes the secrets of new connections. @throws StoreMisconfigured if Redis does not accept the password */
  async changeSecrets(secrets: RedisSecrets): Promise<void> {
    await this.#options.changeSecrets?.(secrets);
  }

  with(changed: Partial<StoreClientOptions>): StoreClient {
    return new StoreClient(this.nodes, { ...this.#options, ...changed });
  }

  /**
   * Checks the identity of the data, before the service reports a resource as missing or creates a resource.
   *
   * @throws StoreUnavailable if Redis does not answer, or if this process refuses the data
   */
  async confirmMissing(): Promise<void> {
    const { data } = this.#options;
    await data?.check();
    const refusal = data?.refusal();
    if (refusal) throw refusal;
  }

  /**
   * Runs one read command at the node of its key.
   *
   * @param args the arguments of the command. The first argument is the key
   * @param outcome the `outcome` of the thrown error. Pass it only if the read belongs to a change
   * @throws StoreUnavailable if the read fails or exceeds the timeout; RecordUnreadable if the key has another type
   */
  run<Name extends CommandName>(
    operation: string,
    name: Name,
    args: CommandArgs<Name>,
    outcome?: ChangeOutcome,
  ): Promise<Answer<Name>> {
    const call = new RoundTrip<Answer<Name>>(operation, this.#shared, {
      outcome,
      sendTo: ({ reads }, asking) => send(reads.redis, name, args, asking),
    });
    return call.answer(this.nodes.at(args[0], call));
  }

  /**
   * Runs a read script at the node of its first key.
   *
   * @param whileMoving reads the same values with single commands. Called if Redis refuses the script because the slot
   *   of the keys is migrating. If not given, the call waits for the end of the migration
   * @throws the errors of `run`
   */
  ask<Key extends string, Arg extends string>(
    operation: string,
    script: Script<Key, Arg>,
    args: ScriptArgs<Key, Arg>,
    { outcome, whileMoving }: { outcome?: ChangeOutcome | undefined; whileMoving?: () => Promise<string[]> } = {},
  ): Promise<string[]> {
    const list = argumentsOf(script, args);
    const call = new RoundTrip<string[]>(operation, this.#shared, {
      outcome,
      sendTo({ reads }, asking) {
        const answer = send<string[]>(reads.redis, script, list, asking);
        if (!whileMoving) return answer;
        return answer.catch((error: unknown) => {
          if (!isMoving(error)) throw error;
          return whileMoving();
        });
      },
    });
    return call.answer(this.nodes.at(list[1] as string, call));
  }

  /**
   * Makes a change at the node of the script's first key, before a deadline. If `minReplicas` is set, a second round
   * trip waits for the replicas. If the call fails with StoreUnavailable, Redis does not commit the change later. The
   * outcome of the error states whether Redis may have committed the change before the failure.
   *
   * @throws the errors of `run`; TooFewReplicas if the change is committed, but too few replicas confirmed it
   */
  change<Key extends string, Arg extends string>(
    operation: string,
    script: Script<Key, Arg>,
    args: ScriptArgs<Key, Arg>,
  ): Promise<string[]> {
    const refusal = this.#options.data?.refusal();
    if (refusal) return Promise.reject(refusal);
    const call: RoundTrip<string[]> = new RoundTrip(operation, this.#shared, {
      outcome: "not_made",
      sendTo: (node, asking) =>
        sendChange(call, node, (redis, deadline) => send(redis, script, argumentsOf(script, args, deadline), asking)),
    });
    const values: ScriptArgs = args;
    return call.answer(this.nodes.at(values[script.keys[0] as string] as string, call));
  }

  /** Queries every node that has slots, and omits nodes that fail. @throws StoreUnavailable if all nodes fail */
  async each<T>(operation: string, ask: (redis: ScriptedRedis, name: string) => Promise<T>): Promise<readonly T[]> {
    const requested = this.nodes.masters().map((node) => {
      const call = new RoundTrip<T>(operation, this.#shared, { sendTo: ({ reads, name }) => ask(reads.redis, name) });
      return call.answer(call.sendTo(node, false));
    });
    const settled = await Promise.allSettled(requested);
    if (settled.every(({ status }) => status === "rejected")) await requested[0];
    return settled.flatMap((each) => (each.status === "fulfilled" ? [each.value] : []));
  }

  /**
   * For `changes`, checks that all nodes accept changes. For `reads`, checks that at least one node answers, because a
   * failover of one node does not stop reads from the other nodes.
   *
   * @throws StoreUnavailable; TooFewReplicas if Redis accepts changes, but too few replicas confirm them
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

interface Shared {
  readonly timeouts: Timeouts;
  readonly observe: StoreClientOptions["observe"];
  readonly traceOf: StoreClientOptions["traceOf"];
}

interface Sending<T> {
  /** The outcome of the change if the call fails. Undefined if the call does not belong to a change. */
  readonly outcome?: ChangeOutcome | undefined;
  readonly sendTo: NodeCall<T>["sendTo"];
}

/** A call in flight. The timeout of the call starts when this object is created. */
class RoundTrip<T> implements NodeCall<T>, TimedCall {
  readonly operation: string;
  outcome: ChangeOutcome | undefined;
  previous: TimedCall | undefined;
  next: TimedCall | undefined;
  end: number;
  /** Whether Redis has committed the change. The replicas may not have confirmed the change yet. */
  isMade = false;
  readonly timeouts: Timeouts;
  readonly sendTo: NodeCall<T>["sendTo"];
  private isEnded = false;
  private readonly observe: StoreObserver | undefined;
  private readonly trace: StoreObserver | undefined;
  private readonly started = performance.now();
  private reject: ((error: DomainError) => void) | undefined = undefined;

  constructor(operation: string, { timeouts, observe, traceOf }: Shared, { outcome, sendTo }: Sending<T>) {
    this.operation = operation;
    this.outcome = outcome;
    this.sendTo = sendTo;
    this.timeouts = timeouts;
    this.observe = observe;
    this.trace = traceOf?.();
    this.end = timeouts.add(this, this.started);
  }

  /** Whether the remaining time is enough for another attempt. */
  get hasTime(): boolean {
    return !this.isEnded && this.timeouts.left(this) > this.timeouts.timeoutMs * (1 - CHANGE_SHARE);
  }

  /** Waits for the answer, and rejects at the timeout. Called once. */
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

  /** Reports the result to the observers. Returns false if the round trip has already ended. */
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

/** @param sendBy sends the script with a deadline by Redis' clock */
async function sendChange(
  call: RoundTrip<string[]>,
  { changes, replicas }: StoreNode,
  sendBy: (redis: ScriptedRedis, deadline: string) => Promise<string[]>,
): Promise<string[]> {
  for (let attempts = 1; ; attempts++) {
    const { clock } = changes;
    if (clock === undefined) throw new NotSent("not connected");
    const sent = performance.now();
    const deadline = clock.at(sent + call.timeouts.left(call) * CHANGE_SHARE);
    call.outcome = "unknown";
    let answer: string[];
    try {
      answer = await sendBy(changes.redis, deadline);
    } catch (error) {
      if (isNotSent(error) || (isRefusal(error) && changedNothing(error))) call.outcome = "not_made";
      if (isNotSent(error) || isRefusal(error)) throw error;
      // Redis may still run the script until the deadline. Return a promise that stays pending, so that the call fails
      // only at its timeout.
      return new Promise(() => {});
    }
    clock.learn(Number(answer[1]), sent, performance.now());
    if (answer[0] !== "late") {
      call.isMade = answer[0] === "done";
      if (call.isMade && replicas) await replicas.confirm(call.timeouts.left(call));
      return answer;
    }
    // The script changed nothing. Either Redis' clock was set forward, or this process sent the script late.
    call.outcome = "not_made";
    if (attempts === MAX_ATTEMPTS || !call.hasTime) {
      throw new NotSent(`${call.operation}: the change reached Redis after its deadline, and was not made`);
    }
  }
}

function storeError(error: unknown, outcome: ChangeOutcome | undefined): DomainError {
  if (error instanceof DomainError) return error;
  const message = messageOf(error);
  // Keep only the message of an ioredis error. The error itself contains the command with its secret arguments.
  const code = errorCodeOf(error);
  if (code === "WRONGTYPE") return new RecordUnreadable(new Error(message));
  const explained =
    code === "MOVED" ? `this is a node of a Cluster: begin REDIS_URL with redis-cluster:// (${message})` : message;
  return new StoreUnavailable(new Error(explained), outcome, faultOf(error, code));
}

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

function faultOf(error: unknown, code: string | undefined): StoreFault {
  if (!isRefusal(error)) return "not_connected";
  return FAULT_OF_CODE[code ?? ""] ?? "refused";
}

type AnyCommands<T> = { readonly [name in CommandName]: (...args: readonly unknown[]) => Promise<T> };

/**
 * Sends a command or a script.
 *
 * @param args for a command, its arguments, which begin with the key. For a script, the result of `argumentsOf`
 * @param asking whether the slot of the key is migrating to this node (ASK). During the migration, keys may be missing
 *   on this node. A script could then create a group twice, or not find a token. A script with several keys must
 *   therefore wait
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
    // Ignore an error of ASKING. The command or script below then fails as well, and its error is thrown.
    redis.asking().catch(() => {});
  }
  if (isScript) return redis.runScript(command, args) as Promise<T>;
  return (redis as unknown as AnyCommands<T>)[command](...args);
}

export interface TimedCall {
  previous: TimedCall | undefined;
  next: TimedCall | undefined;
  /** The time of the timeout, by the clock of `Timeouts`. */
  end: number;
  /** Called once, at the timeout. Must remove the call from the list. */
  expire(): void;
}

/**
 * Expires calls at their timeouts. Every call has the same timeout, so calls expire in the order in which they started.
 * One list and one timer are therefore enough.
 *
 * The list is not a `Set`. V8 often replaces the internal table of a `Set`, and the old tables keep ended calls in
 * memory. With a `Set`, the amount of garbage was twice as large.
 *
 * The clock of this class stops while the process is too busy to read answers, because Redis does not cause this delay.
 */
export class Timeouts {
  readonly timeoutMs: number;
  readonly #checkMs: number;
  #first: TimedCall | undefined;
  #last: TimedCall | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** The planned time of the next run of `#fire` or `#check`, by `performance.now()`. */
  #due = 0;
  /** The total time in which the process was too busy to read answers, in milliseconds. */
  #busyMs = 0;

  constructor(timeoutMs: number) {
    this.timeoutMs = timeoutMs;
    this.#checkMs = Math.min(Math.max(timeoutMs / CHECKS, 5), 50);
  }

  /** Adds a call, and returns its `end`. @param now the time by `performance.now()` */
  add(call: TimedCall, now: number): number {
    call.previous = this.#last;
    call.next = undefined;
    if (this.#last) this.#last.next = call;
    else this.#first = call;
    this.#last = call;
    if (this.#timer === undefined) this.#wait(now);
    return now - this.#busyMs + this.timeoutMs;
  }

  /** Removes an added call. Must be called only once for each call. */
  remove(call: TimedCall): void {
    if (call.previous) call.previous.next = call.next;
    else this.#first = call.next;
    if (call.next) call.next.previous = call.previous;
    else this.#last = call.previous;
    call.previous = undefined;
    call.next = undefined;
  }

  /** Returns the remaining time of an added call, in milliseconds. The busy time of the process does not count. */
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
    // The event loop reads all answers that have arrived before it runs the check. Calls with these answers do not
    // expire.
    setImmediate(this.#check);
  };

  readonly #check = (): void => {
    this.#passBusyTime();
    const now = performance.now();
    while (this.#first && this.#first.end <= now - this.#busyMs) this.#first.expire();
    if (this.#first) this.#wait(now);
    else this.#timer = undefined;
  };

  /** If `#fire` or `#check` runs late, adds the delay to `#busyMs`. Delays of up to `#checkMs` do not count. */
  #passBusyTime(): void {
    const late = performance.now() - this.#due;
    if (late > this.#checkMs) this.#busyMs += late;
  }
}
