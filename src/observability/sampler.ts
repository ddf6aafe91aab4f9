import { type Environment, environmentPath } from "../domain/environment.ts";
import {
  COLUMN,
  callsIn,
  environmentScope,
  increase,
  MAX_ENVIRONMENTS,
  OTHER_ENVIRONMENTS,
  SAMPLE_MS,
  type Sample,
  type Scopes,
  type Values,
} from "./history.ts";

/** The maximum number of environments that are counted separately in an interval. All others share one count. */
const MAX_COUNTED = 1000;

/**
 * The delay from the end of an interval to its sample, in milliseconds. Timers may fire early, so a delay is necessary.
 */
const DELAY_MS = 50;

/**
 * Counts the calls of each environment. The metrics do not contain these counts, because unauthenticated clients may
 * read the metrics.
 */
export class EnvironmentCounts {
  #counts = new Map<number, { readonly scope: string; readonly values: Values }>();
  #others: Values = {};

  /** Counts a call. @param bucket the result of `CallSeries.end` @param reason the error reason of a failed call */
  count(environment: Environment, bucket: number, reason: string | undefined): void {
    const values = this.#counts.get(environment.number)?.values ?? this.#add(environment);
    increase(values, bucket, 1);
    if (reason !== undefined) increase(values, COLUMN.error + reason, 1);
  }

  /**
   * Returns the counts since the last call of this method, by scope. Each of the busiest environments has its own
   * scope. All other environments share one scope.
   */
  take(): Scopes {
    const all = [...this.#counts.values()]
      .map((counted) => ({ ...counted, calls: callsIn(counted.values) }))
      .sort((one, other) => other.calls - one.calls);
    const others = this.#others;
    this.#counts = new Map();
    this.#others = {};
    for (const { values } of all.slice(MAX_ENVIRONMENTS))
      for (const [column, value] of Object.entries(values)) increase(others, column, value);
    const busiest = all.slice(0, MAX_ENVIRONMENTS).map(({ scope, values }) => [scope, values] as const);
    return { ...Object.fromEntries(busiest), [OTHER_ENVIRONMENTS]: others };
  }

  #add(environment: Environment): Values {
    if (this.#counts.size >= MAX_COUNTED) return this.#others;
    const scope = environmentScope(environment.number, environmentPath(environment));
    const values: Values = {};
    this.#counts.set(environment.number, { scope, values });
    return values;
  }
}

interface Source {
  /** Returns counts since the start of the process. */
  totals(): Promise<Scopes>;
  current(queueLength: number): Scopes;
  readonly environments: Pick<EnvironmentCounts, "take">;
}

interface SamplerOptions {
  readonly queueLength: () => number;
  readonly onSample: (sample: Sample) => void;
}

/**
 * Takes a sample of this worker after each interval. A sample contains the increases of all counts since the previous
 * sample, and current values, such as the length of the queue.
 *
 * @returns a function that stops the sampler
 */
export function startSampler(source: Source, { queueLength, onSample }: SamplerOptions): () => void {
  let before: Scopes = {};
  let timer: ReturnType<typeof setTimeout> | undefined;
  const take = async (slot: number) => {
    const now = await source.totals();
    const scopes = source.environments.take();
    for (const [scope, values] of Object.entries(now)) {
      const differences: Values = {};
      for (const [column, value] of Object.entries(values))
        increase(differences, column, value - (before[scope]?.[column] ?? 0));
      if (Object.keys(differences).length > 0) scopes[scope] = differences;
    }
    for (const [scope, values] of Object.entries(source.current(queueLength())))
      scopes[scope] = { ...scopes[scope], ...values };
    before = now;
    onSample({ slot, scopes });
  };
  const start = () => {
    const wait = SAMPLE_MS - (Date.now() % SAMPLE_MS) + DELAY_MS;
    timer = setTimeout(() => {
      // If somebody sets the clock while the timer waits, the sample belongs to the slot of the new time.
      const slot = Math.floor((Date.now() - DELAY_MS / 2) / SAMPLE_MS) - 1;
      start();
      void take(slot);
    }, wait).unref();
  };
  start();
  return () => clearTimeout(timer);
}
