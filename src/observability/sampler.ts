import { type Environment, environmentPath } from "../domain/environment.ts";
import {
  COLUMN,
  DURATION_BUCKETS,
  environmentScope,
  MAX_ENVIRONMENTS,
  OTHER_ENVIRONMENTS,
  SAMPLE_MS,
  type Sample,
} from "./history.ts";

/**
 * The maximum number of environments that are counted separately in an interval. All other environments are counted
 * together.
 */
const MAX_COUNTED = 1000;

/**
 * The time from the end of an interval to the sample of the interval, in milliseconds. The delay is necessary because
 * timers may fire a millisecond early.
 */
const DELAY_MS = 50;

type Values = { [column: string]: number };

class EnvironmentCount {
  readonly scope: string;
  /**
   * The numbers of calls. The first numbers count the calls in each bucket. The next number counts the calls above the
   * last bound. The last number counts the calls that have no duration.
   */
  readonly counts = new Array<number>(DURATION_BUCKETS.length + 2).fill(0);
  readonly errors = new Map<string, number>();

  constructor(scope: string) {
    this.scope = scope;
  }

  get calls(): number {
    return this.counts.reduce((sum, count) => sum + count, 0);
  }

  addTo(values: Values): void {
    for (const [i, count] of this.counts.entries()) increase(values, columnOf(i), count);
    for (const [reason, count] of this.errors) increase(values, COLUMN.error + reason, count);
  }
}

/**
 * Counts the calls of each environment. The metrics do not contain these counts, because unauthenticated clients may
 * read the metrics.
 */
export class EnvironmentCounts {
  #counts = new Map<number, EnvironmentCount>();
  #others = new EnvironmentCount(OTHER_ENVIRONMENTS);

  /** @param bucket the result of `CallSeries.end` @param reason the reason of the error of a failed call */
  count(environment: Environment, bucket: number, reason: string | undefined): void {
    const count = this.#counts.get(environment.number) ?? this.#add(environment);
    count.counts[bucket] = (count.counts[bucket] as number) + 1;
    if (reason !== undefined) count.errors.set(reason, (count.errors.get(reason) ?? 0) + 1);
  }

  /**
   * Returns the counts since the last call of this method, by scope. The busiest environments have a scope each. All
   * other environments share one scope.
   */
  take(): { [scope: string]: Values } {
    const all = [...this.#counts.values()].sort((one, other) => other.calls - one.calls);
    all.push(this.#others);
    this.#counts = new Map();
    this.#others = new EnvironmentCount(OTHER_ENVIRONMENTS);
    const scopes: { [scope: string]: Values } = {};
    for (const [i, count] of all.entries()) {
      const scope = i < MAX_ENVIRONMENTS ? count.scope : OTHER_ENVIRONMENTS;
      const values: Values = scopes[scope] ?? {};
      count.addTo(values);
      scopes[scope] = values;
    }
    return scopes;
  }

  #add(environment: Environment): EnvironmentCount {
    if (this.#counts.size >= MAX_COUNTED) return this.#others;
    const count = new EnvironmentCount(environmentScope(environment.number, environmentPath(environment)));
    this.#counts.set(environment.number, count);
    return count;
  }
}

export function columnOf(bucket: number): string {
  return bucket > DURATION_BUCKETS.length ? COLUMN.streams : String(bucket);
}

/** Increases the value of a column by a number. If the number is 0, adds no column. */
export function increase(values: Values, column: string, by: number): void {
  if (by > 0) values[column] = (values[column] ?? 0) + by;
}

interface Source {
  /** Returns counts since the start of the process, by scope. */
  totals(): Promise<{ readonly [scope: string]: Values }>;
  current(queueLength: number): { readonly [scope: string]: Values };
  readonly environments: Pick<EnvironmentCounts, "take">;
}

interface SamplerOptions {
  readonly queueLength: () => number;
  readonly onSample: (sample: Sample) => void;
}

/**
 * Takes a sample of the metrics of a worker at the end of each interval. For counts, a sample contains the increase
 * since the previous sample.
 */
export class Sampler {
  readonly #source: Source;
  readonly #options: SamplerOptions;
  #before: { readonly [scope: string]: Values } = {};
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(source: Source, options: SamplerOptions) {
    this.#source = source;
    this.#options = options;
    this.#start();
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  #start(): void {
    const wait = SAMPLE_MS - (Date.now() % SAMPLE_MS) + DELAY_MS;
    this.#timer = setTimeout(() => {
      // If the clock is changed while the timer waits, the sample belongs to the slot of the new time.
      const slot = Math.floor((Date.now() - DELAY_MS / 2) / SAMPLE_MS) - 1;
      this.#start();
      void this.#take(slot);
    }, wait).unref();
  }

  async #take(slot: number): Promise<void> {
    const source = this.#source;
    const now = await source.totals();
    const scopes: { [scope: string]: Values } = source.environments.take();
    for (const [scope, values] of Object.entries(now)) {
      const differences: Values = {};
      for (const [column, value] of Object.entries(values))
        increase(differences, column, value - (this.#before[scope]?.[column] ?? 0));
      if (Object.keys(differences).length > 0) scopes[scope] = differences;
    }
    for (const [scope, values] of Object.entries(source.current(this.#options.queueLength())))
      scopes[scope] = { ...scopes[scope], ...values };
    this.#before = now;
    this.#options.onSample({ slot, scopes });
  }
}
