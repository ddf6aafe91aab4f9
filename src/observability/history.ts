import { randomUUID } from "node:crypto";

/** The length of the interval of a sample, in milliseconds. */
export const SAMPLE_MS = 10_000;

const SAMPLES = 360;

/** The maximum number of environments with their own scope (see `Scopes`). All others share `OTHER_ENVIRONMENTS`. */
export const MAX_ENVIRONMENTS = 24;

/**
 * The time from the end of an interval until queries return its sample, in milliseconds. In this time, the workers
 * report their values.
 */
const REPORT_MS = 2000;

/** If the clock is set back by more than this number of intervals, the history removes all samples. */
const MAX_STEP_BACK = 6;

/** The upper bounds of the buckets of durations, in seconds. */
export const DURATION_BUCKETS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5] as const;

/** The scope for values of the whole service. */
export const SERVICE = "service";

/** The scope for the sums of all environments that do not have their own scope. */
export const OTHER_ENVIRONMENTS = "environments";

const [METHOD, ENVIRONMENT] = ["method ", "environment "] as const;

export function methodScope(method: string): string {
  return METHOD + method;
}

/** @param path the name and tag of the environment */
export function environmentScope(number: number, path: string): string {
  return `${ENVIRONMENT}${number} ${path}`;
}

/** The names of columns (see `Scopes`). The column of a bucket of durations has the index of the bucket as its name. */
export const COLUMN = {
  /** The column that counts streams. Streams have no duration, so no bucket counts them. */
  streams: String(DURATION_BUCKETS.length + 1),
  /** The prefix of the columns that count failed calls. In the name of a column, an error reason follows the prefix. */
  error: "error ",
  workers: "workers",
  inFlight: "in-flight",
  queueLength: "queue",
  queued: "queued",
  refused: "refused ",
  redis: "redis ",
  redisErrors: "redis-errors",
  memoryMiB: "memory",
} as const;

/** Values by scope and column. A scope is a method, an environment, or the service. A column is a kind of value. */
export type Scopes = { [scope: string]: Values };

export type Values = { [column: string]: number };

/** The values of one interval in one process. */
export interface Sample {
  /** The number of the interval, counted from 1970. */
  readonly slot: number;
  readonly scopes: Scopes;
}

export interface HistoryQuery {
  readonly method?: string | undefined;
  readonly environmentNumber?: number | undefined;
  /** Selects the calls of environments with this name and tag. */
  readonly environmentPath?: string | undefined;
  /** Selects samples that end after this time, in milliseconds since 1970. */
  readonly after: number;
}

/** The calls of an interval or of an hour. Quantiles are in seconds, and undefined if no duration was counted. */
export interface Calls {
  readonly calls: number;
  readonly errors: { readonly [reason: string]: number };
  readonly p50: number | undefined;
  readonly p99: number | undefined;
}

export interface CallSample extends Calls {
  /** The end of the interval, in milliseconds since 1970. */
  readonly endTime: number;
  /** The state of the service. Undefined if the query selects a method or an environment. */
  readonly service: ServiceSample | undefined;
}

/** The state of the service at the end of an interval, and the work of the service in the interval. */
export interface ServiceSample {
  readonly workers: number;
  readonly callsInFlight: number;
  readonly queueLength: number;
  readonly queuedCalls: number;
  readonly refusals: { readonly [cause: string]: number };
  readonly redisRoundTrips: { readonly [operation: string]: number };
  readonly redisErrors: number;
  readonly redisP50: number | undefined;
  readonly redisP99: number | undefined;
  readonly memoryMib: number;
}

export interface HistoryAnswer {
  /** A random id of the process. A restarted process has a new id. */
  readonly instance: string;
  /** The samples, the oldest first. */
  readonly samples: readonly CallSample[];
  /**
   * The calls of the last hour, by method, in descending order of the number of calls. Empty if the query has an
   * `environmentNumber`.
   */
  readonly methods: readonly (Calls & { readonly method: string })[];
  /**
   * The calls of the last hour, by environment, in descending order of the number of calls, for at most
   * `MAX_ENVIRONMENTS` environments. If other environments had calls, a last entry without a path contains their sums.
   * The calls of `ADMIN_TOKEN` and of unauthenticated callers are in no entry, because these callers have no
   * environment. Empty if the query has an `environmentNumber`.
   */
  readonly environments: readonly (Calls & { readonly path: string | undefined })[];
}

type Columns = Map<string, Uint32Array>;

/**
 * Keeps the samples of the last hour in memory. If the service has several workers, the supervisor adds up the samples
 * of all workers. When the process exits, the samples are lost.
 *
 * A column takes 1,440 bytes. A busy service with calls of 10 methods in 20 environments needs 400 columns. The number
 * of columns is limited, because the numbers of environments, methods, error reasons and operations are limited.
 */
export class History {
  readonly #instance = randomUUID();
  readonly #scopes = new Map<string, Columns>();
  /** The first and the last slot with values. */
  #first = Number.POSITIVE_INFINITY;
  #last = Number.NEGATIVE_INFINITY;

  add({ slot, scopes }: Sample): void {
    this.#advance(slot);
    if (slot <= this.#last - SAMPLES) return;
    for (const [scope, values] of Object.entries(scopes)) {
      const admitted = scope.startsWith(ENVIRONMENT) ? this.#admit(scope, values) : scope;
      for (const [column, value] of Object.entries(values)) this.#increase(admitted, column, slot, value);
    }
  }

  /** @param now the time, in milliseconds since 1970 */
  read(query: HistoryQuery, now: number): HistoryAnswer {
    const complete = Math.floor((now - REPORT_MS) / SAMPLE_MS) - 1;
    const to = Math.min(this.#last, complete);
    const hour = this.#slots(Number.NEGATIVE_INFINITY, to);
    const selected = this.#selected(query);
    const { method, environmentNumber, environmentPath } = query;
    const isAll = method === undefined && environmentNumber === undefined && environmentPath === undefined;
    const samples = this.#slots(Math.floor(query.after / SAMPLE_MS), to).map((slot) => ({
      endTime: (slot + 1) * SAMPLE_MS,
      ...callsOf(selected, [slot]),
      service: isAll ? serviceOf(this.#scopes.get(SERVICE), slot) : undefined,
    }));
    const instance = this.#instance;
    if (environmentNumber !== undefined) return { instance, samples, methods: [], environments: [] };
    // If an environment was deleted and created again, it has two numbers, but one path. So add up all scopes with the
    // same path.
    const ofHour = (prefix: string) => {
      const byName = new Map<string, Columns[]>();
      for (const [scope, columns] of this.#scopes) {
        if (!scope.startsWith(prefix)) continue;
        const name = scope.slice(scope.lastIndexOf(" ") + 1);
        byName.set(name, [...(byName.get(name) ?? []), columns]);
      }
      return [...byName]
        .map(([name, scopes]) => ({ name, ...callsOf(sumOfScopes(scopes), hour) }))
        .filter(({ calls }) => calls > 0)
        .sort((one, other) => other.calls - one.calls);
    };
    const others = this.#scopes.get(OTHER_ENVIRONMENTS);
    const ofOthers = others ? [{ path: undefined, ...callsOf(others, hour) }] : [];
    return {
      instance,
      samples,
      methods: ofHour(METHOD).map(({ name, ...calls }) => ({ method: name, ...calls })),
      environments: [
        ...ofHour(ENVIRONMENT).map(({ name, ...calls }) => ({ path: name, ...calls })),
        ...ofOthers.filter(({ calls }) => calls > 0),
      ],
    };
  }

  #slots(from: number, to: number): number[] {
    const first = Math.max(from, this.#first, this.#last - SAMPLES + 1);
    return Array.from({ length: Math.max(0, to - first + 1) || 0 }, (_, i) => first + i);
  }

  #selected({ method, environmentNumber, environmentPath }: HistoryQuery): Columns {
    if (method !== undefined) return this.#scopes.get(methodScope(method)) ?? new Map();
    const isSelected = (scope: string) => {
      if (environmentNumber !== undefined) return scope.startsWith(`${ENVIRONMENT}${environmentNumber} `);
      if (environmentPath === undefined) return scope.startsWith(METHOD);
      return scope.startsWith(ENVIRONMENT) && scope.endsWith(` ${environmentPath}`);
    };
    return sumOfScopes([...this.#scopes].flatMap(([scope, columns]) => (isSelected(scope) ? [columns] : [])));
  }

  /**
   * If `slot` is after the last slot, makes `slot` the last slot, and sets the values of all new slots to 0. If the
   * clock was set back by more than `MAX_STEP_BACK` intervals, removes all samples first.
   */
  #advance(slot: number): void {
    if (slot < this.#last - MAX_STEP_BACK) {
      this.#scopes.clear();
      this.#first = Number.POSITIVE_INFINITY;
      this.#last = Number.NEGATIVE_INFINITY;
    }
    this.#first = Math.min(this.#first, slot);
    if (slot <= this.#last) return;
    const gained = Math.min(SAMPLES, slot - this.#last);
    for (const columns of this.#scopes.values())
      for (const values of columns.values()) for (let i = 0; i < gained; i++) values[(slot - i) % SAMPLES] = 0;
    this.#last = slot;
  }

  #increase(scope: string, column: string, slot: number, by: number): void {
    const columns = this.#scopes.get(scope) ?? new Map<string, Uint32Array>();
    const values = columns.get(column) ?? new Uint32Array(SAMPLES);
    values[slot % SAMPLES] = (values[slot % SAMPLES] as number) + by;
    this.#scopes.set(scope, columns.set(column, values));
  }

  /**
   * Returns the scope for the values of an environment: its own scope or `OTHER_ENVIRONMENTS`. At most
   * `MAX_ENVIRONMENTS` environments have their own scope. If this limit is reached, and the scope with the fewest calls
   * has fewer calls than `values`, moves the values of that scope to `OTHER_ENVIRONMENTS`.
   */
  #admit(scope: string, values: Values): string {
    if (this.#scopes.has(scope)) return scope;
    const known = [...this.#scopes.keys()].filter((each) => each.startsWith(ENVIRONMENT));
    if (known.length < MAX_ENVIRONMENTS) return scope;
    const hour = this.#slots(Number.NEGATIVE_INFINITY, this.#last);
    const [least] = known
      .map((name) => ({ name, calls: callsOf(this.#scopes.get(name) as Columns, hour).calls }))
      .sort((one, other) => one.calls - other.calls);
    if (!least || callsIn(values) <= least.calls) return OTHER_ENVIRONMENTS;
    const left = this.#scopes.get(least.name) as Columns;
    this.#scopes.delete(least.name);
    for (const [column, old] of left)
      for (const slot of hour) this.#increase(OTHER_ENVIRONMENTS, column, slot, old[slot % SAMPLES] as number);
    return scope;
  }
}

/** Returns the number of calls. Ignores the columns of errors, because the other columns also count failed calls. */
export function callsIn(values: Values): number {
  return Object.entries(values).reduce((sum, [name, value]) => (name.startsWith(COLUMN.error) ? sum : sum + value), 0);
}

/** Adds a number to the value of a column. Ignores 0, so that 0 creates no column. */
export function increase(values: Values, column: string | number, by: number): void {
  if (by > 0) values[column] = (values[column] ?? 0) + by;
}

function sumOf(values: Uint32Array | undefined, slots: readonly number[]): number {
  let sum = 0;
  if (values) for (const slot of slots) sum += values[slot % SAMPLES] as number;
  return sum;
}

function sumOfScopes(scopes: readonly Columns[]): Columns {
  const [first, ...others] = scopes;
  if (!first || others.length === 0) return first ?? new Map();
  const sums: Columns = new Map();
  for (const columns of scopes) {
    for (const [column, values] of columns) {
      const sum = sums.get(column) ?? new Uint32Array(SAMPLES);
      sums.set(column, sum);
      for (let i = 0; i < SAMPLES; i++) sum[i] = (sum[i] as number) + (values[i] as number);
    }
  }
  return sums;
}

/** Returns the sums of the columns whose names begin with a prefix, by name without the prefix. Omits sums of 0. */
function sumsBy(prefix: string, columns: Columns, slots: readonly number[]): { [name: string]: number } {
  const sums: { [name: string]: number } = {};
  for (const [column, values] of columns) {
    const sum = column.startsWith(prefix) ? sumOf(values, slots) : 0;
    if (sum > 0) sums[column.slice(prefix.length)] = sum;
  }
  return sums;
}

function callsOf(columns: Columns, slots: readonly number[]): Calls {
  const counts = countsOf(columns, slots);
  return {
    calls: counts.reduce((sum, count) => sum + count, sumOf(columns.get(COLUMN.streams), slots)),
    errors: sumsBy(COLUMN.error, columns, slots),
    p50: quantileOf(counts, 0.5),
    p99: quantileOf(counts, 0.99),
  };
}

function serviceOf(columns: Columns = new Map(), slot: number): ServiceSample {
  const value = (column: string) => sumOf(columns.get(column), [slot]);
  const counts = countsOf(columns, [slot]);
  return {
    workers: value(COLUMN.workers),
    callsInFlight: value(COLUMN.inFlight),
    queueLength: value(COLUMN.queueLength),
    queuedCalls: value(COLUMN.queued),
    refusals: sumsBy(COLUMN.refused, columns, [slot]),
    redisRoundTrips: sumsBy(COLUMN.redis, columns, [slot]),
    redisErrors: value(COLUMN.redisErrors),
    redisP50: quantileOf(counts, 0.5),
    redisP99: quantileOf(counts, 0.99),
    memoryMib: value(COLUMN.memoryMiB),
  };
}

/** Returns the number of durations in each bucket. The last number is the number of durations above the last bound. */
function countsOf(columns: Columns, slots: readonly number[]): number[] {
  return Array.from({ length: DURATION_BUCKETS.length + 1 }, (_, i) => sumOf(columns.get(String(i)), slots));
}

/**
 * Estimates a quantile in seconds. Interpolates within a bucket, like `histogram_quantile` of Prometheus. Returns the
 * last bound if the quantile is above it, and undefined if all counts are 0.
 */
export function quantileOf(counts: readonly number[], quantile: number): number | undefined {
  const rank = quantile * counts.reduce((sum, count) => sum + count, 0);
  if (rank === 0) return undefined;
  let below = 0;
  for (const [i, upper] of DURATION_BUCKETS.entries()) {
    const count = counts[i] ?? 0;
    const lower = DURATION_BUCKETS[i - 1] ?? 0;
    if (below + count >= rank) return lower + (upper - lower) * ((rank - below) / count);
    below += count;
  }
  return DURATION_BUCKETS.at(-1);
}
