import type { PausedConnection, RequestHead } from "../http-types.ts";
import { MAX_HTTP2_STREAMS } from "../limits.ts";
import { afterReading, IMMEDIATES_DELAY_READS } from "./after-reading.ts";
import type { OverloadCause } from "./refusals.ts";

/** The maximum number of calls that begin in one turn of the event loop while no call waits. */
const MAX_AT_ONCE = 64;

/**
 * The number of waiting calls that may begin in a short turn of the event loop. These calls take about a millisecond,
 * so the server soon reads the calls of other callers. On Deno, a turn takes longer, so more calls begin in each turn.
 */
const PER_TURN = IMMEDIATES_DELAY_READS ? 32 : 16;

/**
 * In a turn, this number of waiting calls may begin for each millisecond that the previous turn took. After a short
 * turn, `PER_TURN` calls may begin. Refused calls and requests that do not wait make each turn longer. The queue then
 * has fewer turns per second, so each turn must begin more calls.
 */
const PER_MS = 3;

/**
 * The number of calls that may wait before the server stops reading connections. This number is divided equally among
 * the groups, and the share of a group is divided equally among its callers. If the waiting calls of a caller exceed
 * the share of the caller, the server stops reading the connections of the caller, because every additional call would
 * cost memory and garbage collection.
 */
const READ_AHEAD = 256;

/**
 * The maximum number of paused connections to resume in one turn. Each resumed connection may send `MAX_HTTP2_STREAMS`
 * calls.
 */
const RESUMED_PER_TURN = 4;

/**
 * After the queue has begun or refused this number of calls of a caller, it resumes a paused connection of the caller,
 * even if many calls of the caller still wait. A resumed connection may send `MAX_HTTP2_STREAMS` calls. If this number
 * were not larger than `MAX_HTTP2_STREAMS`, a long queue would never become shorter.
 */
const TAKEN_PER_RESUMED = 2 * MAX_HTTP2_STREAMS;

/**
 * A turn takes at most this number of calls from the queue for each call that it may begin. If a taken call has waited
 * too long, the queue refuses the call. A refusal takes as much CPU as beginning a call, so one turn must not refuse
 * all late calls.
 */
const TAKEN_PER_BEGUN = 4;

/** The longest wait of a call without a deadline, in milliseconds. After this wait, the call is refused. */
export const MAX_WAIT_MS = 2000;

/** The maximum size of a waiting call that counts as one call, in bytes. A larger call counts as several calls. */
export const CALL_BYTES = 4096;

const MAX_RETRY_AFTER = 10;

/**
 * The longest wait of a call with a deadline, in milliseconds. An earlier refusal would save no work, because a refused
 * client may call again after at most this time (`Retry-After`).
 */
export const MAX_DEADLINE_WAIT_MS = 1000 * MAX_RETRY_AFTER;

/** The interval at which the rate and the memory of the queue are measured, in milliseconds. */
const RATE_INTERVAL_MS = 250;

/** The caller of a call. The queue serves the groups in rotation. In a group, it serves the callers in rotation. */
export interface Caller {
  readonly group: string;
  readonly name: string;
}

const SOLE_CALLER: Caller = { group: "", name: "" };

export interface CallQueueOptions {
  /**
   * The maximum number of calls that wait or are in flight. At the limit, each new call is refused or causes the
   * refusal of a waiting call. Default: no limit.
   */
  readonly maxCalls?: number;
  /** Returns the caller of a request. Default: all requests have the same caller. */
  readonly callerOf?: (request: RequestHead) => Caller;
  /** Called when a call stops waiting. Receives the time for which the call has waited. */
  readonly onWaited?: (seconds: number) => void;
}

interface Waiting {
  readonly request: RequestHead;
  readonly headerBytes: number;
  /** The memory of the call in units of `CALL_BYTES`, at least 1. */
  units: number;
  readonly since: number;
  /** The time after which the call is refused, by `performance.now()`. */
  readonly until: number;
  readonly lateCause: OverloadCause;
  /** @param refused the cause of the refusal; undefined if the call begins */
  readonly end: (refused?: OverloadCause) => void;
}

/** The waiting calls of a caller, oldest first. */
class Line {
  readonly key: string;
  readonly calls: Waiting[] = [];
  /** The paused connections of the caller, oldest first. Can contain closed connections. */
  readonly paused: PausedConnection[] = [];
  /**
   * Whether the queue has paused all known connections of the caller. The queue pauses them when the number of waiting
   * calls of the caller exceeds the caller's share of `READ_AHEAD`. For each later call, the queue pauses only the
   * connection of this call. Becomes false when the last paused connection of the caller is resumed or closed.
   */
  hasPausedAll = false;
  /** The number of calls taken from the line since a paused connection was last resumed. */
  taken = 0;
  units = 0;

  constructor(key: string) {
    this.key = key;
  }
}

/** A group of callers. `lines` contains the callers with waiting calls. The first caller is served next. */
class Group {
  readonly key: string;
  readonly lines = new Map<string, Line>();
  units = 0;
  /** The line whose calls use the most memory, among the lines that have grown since the last `#measure`. */
  largest = new Line("");

  constructor(key: string) {
    this.key = key;
  }
}

/**
 * Begins calls in a fair order (docs/decisions/0012-overload.md). While the process has time, a call begins
 * immediately. While the process is busy, calls wait, and the queue begins one call of each caller in rotation. So a
 * caller with many waiting calls does not delay the calls of other callers.
 *
 * A waiting call uses only the memory of its request: its headers, and the part of its body that has arrived.
 */
export class CallQueue {
  readonly #options: CallQueueOptions;
  readonly #max: number;
  /** The groups with waiting calls. The first group is served next. */
  readonly #groups = new Map<string, Group>();
  /** The group whose calls use the most memory, among the groups that have grown since the last `#measure`. */
  #largest = new Group("");
  #waiting = 0;
  #units = 0;
  /** The number of waiting calls per second that begin or are refused. Measured while calls wait. */
  #perSecond = Number.POSITIVE_INFINITY;
  #measuredSince = 0;
  #ended = 0;
  #begun = 0;
  #resumed = 0;
  #isScheduled = false;
  #turnBegan = 0;
  /** The number of calls in flight. `Admission` and `Call` update this number. */
  inFlight = 0;

  constructor(options: CallQueueOptions = {}) {
    this.#options = options;
    this.#max = options.maxCalls ?? Number.POSITIVE_INFINITY;
  }

  get length(): number {
    return this.#waiting;
  }

  /** The expected time until all waiting calls have begun, in whole seconds from 1 to 10. */
  get retryAfterSeconds(): number {
    return Math.min(MAX_RETRY_AFTER, Math.max(1, Math.ceil(this.#waiting / Math.max(1, this.#perSecond))));
  }

  /** Begins a call immediately. Returns false if the call must wait. */
  tryBegin(): boolean {
    if (this.#waiting > 0 || this.#begun >= MAX_AT_ONCE || this.inFlight >= this.#max) return false;
    this.#begin();
    return true;
  }

  /**
   * Waits until a call begins or is refused. Resolves to undefined if the call begins, and to the cause if the call is
   * refused. If the client disconnects, the promise never resolves.
   *
   * @param timeoutMs the time until the deadline of the call, in milliseconds; undefined if the call has no deadline
   */
  wait(request: RequestHead, timeoutMs?: number): Promise<OverloadCause | undefined> {
    const { group: key, name } = this.#options.callerOf?.(request) ?? SOLE_CALLER;
    const headerBytes = sizeOf(request);
    const units = unitsOf(request, headerBytes);
    // A large call may need the room of several small calls.
    while (this.#units + this.inFlight + units > this.#max) {
      const group = this.#groups.get(key);
      if (!this.#makeRoom(group, group?.lines.get(name))) return Promise.resolve("queue-full");
    }
    const since = performance.now();
    const hasDeadline = timeoutMs !== undefined && timeoutMs <= MAX_DEADLINE_WAIT_MS;
    const maxMs = timeoutMs === undefined ? MAX_WAIT_MS : Math.min(timeoutMs, MAX_DEADLINE_WAIT_MS);
    return new Promise((end) => {
      const lateCause = hasDeadline ? "deadline-exceeded" : "waited-too-long";
      const group = getOrCreate(this.#groups, key, Group);
      const line = getOrCreate(group.lines, name, Line);
      line.calls.push({ request, headerBytes, units, since, until: since + maxMs, lateCause, end });
      this.#waiting++;
      this.#count(group, line, units);
      if (this.#mayRead(group, line)) return;
      line.paused.push(...request.pauseConnections(`${key} ${name}`, !line.hasPausedAll));
      line.hasPausedAll = true;
    });
  }

  /** Returns whether the server may read more calls from the connections of a caller. */
  #mayRead({ lines }: Group, { calls }: Line): boolean {
    return calls.length <= Math.max(1, READ_AHEAD / (this.#groups.size * lines.size));
  }

  #count(group: Group, line: Line, units: number): void {
    this.#units += units;
    group.units += units;
    line.units += units;
    if (line.units > group.largest.units) group.largest = line;
    if (group.units > this.#largest.units) this.#largest = group;
  }

  /**
   * Makes room for a new call. Refuses the oldest call of the largest caller in the largest group. A group or a caller
   * is the largest if its waiting calls use the most memory. The client of the oldest call is the least likely to still
   * wait for the answer. Returns false if the new call itself must be refused.
   *
   * @param group the group of the new call
   * @param line the line of the new call. If the new call would make this group and this line the largest, this line
   * loses a call
   */
  #makeRoom(group: Group | undefined, line: Line | undefined): boolean {
    const isOwn = (group?.units ?? 0) + 1 >= this.#largest.units;
    const from = isOwn ? group : this.#largest;
    if (!from) return false;
    const loser = isOwn && line && line.units + 1 >= from.largest.units ? line : from.largest;
    if (isOwn && loser.calls.length < 2) return false;
    this.#refuseOldest(from, loser);
    return true;
  }

  /** @param line the line that loses a call. If this line is empty, the first line of the group loses a call */
  #refuseOldest(group: Group, line: Line): void {
    const loser = line.calls.length > 0 ? line : (group.lines.values().next().value as Line);
    this.#end(loser.calls.shift() as Waiting, group, loser, "queue-full");
    if (loser.calls.length > 0) return;
    group.lines.delete(loser.key);
    if (group.lines.size === 0) this.#groups.delete(group.key);
  }

  #begin(): void {
    this.#begun++;
    this.#schedule();
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    this.#turnBegan = performance.now();
    afterReading(this.#endTurn);
  }

  readonly #endTurn = () => {
    this.#begun = 0;
    this.#resumed = 0;
    this.#isScheduled = false;
    if (this.#waiting === 0) return;
    this.#measure();
    const max = Math.max(PER_TURN, PER_MS * (performance.now() - this.#turnBegan));
    for (let taken = 0; taken < TAKEN_PER_BEGUN * max && this.#begun < max && this.#waiting > 0; taken++)
      this.#beginNext();
    if (this.#waiting > 0) this.#schedule();
  };

  /**
   * Measures the rate and the memory of the queue. The bodies of waiting calls may have grown since the last measure.
   * If the queue now exceeds its limit, refuses calls.
   */
  #measure(): void {
    const ms = performance.now() - this.#measuredSince;
    if (ms < RATE_INTERVAL_MS) return;
    // If two intervals or more have passed, there was a time without waiting calls. A rate that includes this time
    // would be too low.
    if (ms < 2 * RATE_INTERVAL_MS) this.#perSecond = (1000 * this.#ended) / ms;
    this.#measuredSince += ms;
    this.#ended = 0;
    this.#largest = new Group("");
    for (const group of this.#groups.values()) {
      group.largest = new Line("");
      for (const line of group.lines.values()) {
        let added = 0;
        for (const call of line.calls) {
          const units = unitsOf(call.request, call.headerBytes);
          added += units - call.units;
          call.units = units;
        }
        this.#count(group, line, added);
      }
    }
    while (this.#waiting > 0 && this.#units + this.inFlight > this.#max) {
      const [largest] = this.#largest.units > 0 ? [this.#largest] : this.#groups.values();
      this.#refuseOldest(largest as Group, (largest as Group).largest);
    }
  }

  /**
   * Begins the oldest call of the next caller. If this call has waited too long, refuses it and begins the newest call
   * of the caller instead. The other old calls of the caller have probably waited too long as well. Moves the group
   * behind all other groups, and the caller behind all other callers of its group.
   */
  #beginNext(): void {
    const group = this.#groups.values().next().value as Group;
    const line = group.lines.values().next().value as Line;
    const now = performance.now();
    const oldest = line.calls.shift() as Waiting;
    line.taken++;
    let next: Waiting | undefined = oldest;
    if (now > oldest.until) {
      this.#end(oldest, group, line, oldest.lateCause);
      next = line.calls.pop();
    }
    moveToEnd(group.lines, line, line.calls.length === 0);
    moveToEnd(this.#groups, group, group.lines.size === 0);
    if (!next) return;
    const cause = now > next.until ? next.lateCause : undefined;
    if (!cause && !next.request.isDisconnected) this.#begin();
    this.#end(next, group, line, cause);
  }

  /**
   * Resumes a paused connection of a caller if the server may read more calls of the caller, or if the queue has taken
   * `TAKEN_PER_RESUMED` calls of the caller since the last resumption. Without the second rule, calls of the caller on
   * other connections, such as HTTP/1.1, could keep the connection paused forever. Resumes all connections of the
   * caller if no call of the caller waits.
   */
  #resume(group: Group, line: Line): void {
    const { paused } = line;
    const hadPaused = paused.length > 0;
    // Drop closed connections, because a caller that opens a connection for each call could fill the list.
    while (paused[0]?.isClosed) paused.shift();
    const isEmpty = line.calls.length === 0;
    const isDue = line.taken >= TAKEN_PER_RESUMED || this.#mayRead(group, line);
    const mayResume = this.#resumed < RESUMED_PER_TURN && isDue;
    const resumed = paused.splice(0, isEmpty ? Number.POSITIVE_INFINITY : Number(mayResume));
    this.#resumed += resumed.length;
    if (resumed.length > 0) line.taken = 0;
    if (hadPaused && paused.length === 0) line.hasPausedAll = false;
    for (const connection of resumed) connection.resume();
  }

  #end(call: Waiting, group: Group, line: Line, refused: OverloadCause | undefined): void {
    this.#waiting--;
    this.#count(group, line, -call.units);
    this.#ended++;
    this.#resume(group, line);
    this.#options.onWaited?.((performance.now() - call.since) / 1000);
    if (!call.request.isDisconnected) call.end(refused);
  }
}

/**
 * Moves a caller or a group to the end of the map, or removes the entry if it has no waiting calls. The only entry of a
 * map is not moved, because a `Map` copies itself after a few moves.
 */
function moveToEnd<Value extends { readonly key: string }>(
  map: Map<string, Value>,
  value: Value,
  isEmpty: boolean,
): void {
  if (!isEmpty && map.size === 1) return;
  map.delete(value.key);
  if (!isEmpty) map.set(value.key, value);
}

function getOrCreate<Value>(map: Map<string, Value>, key: string, Type: new (key: string) => Value): Value {
  const value = map.get(key) ?? new Type(key);
  map.set(key, value);
  return value;
}

function unitsOf({ unreadBytes }: RequestHead, headerBytes: number): number {
  return Math.max(1, Math.ceil((headerBytes + unreadBytes) / CALL_BYTES));
}

function sizeOf({ target, headers }: RequestHead): number {
  let bytes = target.length;
  for (const name in headers) bytes += name.length + String(headers[name]).length;
  return bytes;
}
