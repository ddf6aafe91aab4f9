import { parseValue, type Scrape, type Series } from "./scrape.ts";

/** The calls of a method, or the round trips to Redis of an operation, within a period. */
export interface Work {
  /** The method or operation. */
  readonly name: string;
  readonly count: number;
  readonly perSecond: number;
  readonly failed: number;
  /** The p99 latency. Undefined: none was measured. */
  readonly p99: Quantile | undefined;
}

/** A quantile of times. */
export interface Quantile {
  /** In seconds. */
  readonly seconds: number;
  /** Whether the time is longer than `seconds`, which is the highest bound of the buckets. */
  readonly isMore: boolean;
}

/** The work of the service between two scrapes, and its state at the second one. */
export interface Figures {
  /** The time between the scrapes, in seconds. */
  readonly seconds: number;
  readonly all: Work;
  /** The called methods, the busiest first. */
  readonly methods: readonly Work[];
  /** Errors by method and code, the most frequent first. */
  readonly errors: readonly { readonly method: string; readonly code: string; readonly count: number }[];
  readonly redis: readonly Work[];
  /** Calls that a limit refused. */
  readonly limited: number;
  readonly inFlight: number;
  readonly workers: number;
  /** Worker processes that exited since the service started. */
  readonly workerExits: number;
  readonly memoryBytes: number;
  /** Undefined: the service does not report it. */
  readonly isRedisReady: boolean | undefined;
}

const METHOD = "grpc_method";

/** Whether two scrapes come from the same process. Otherwise their difference is meaningless. */
export function isSameProcess(before: Scrape, after: Scrape): boolean {
  const start = "process_start_time_seconds";
  if (before.series.get(start)?.value !== after.series.get(start)?.value) return false;
  for (const [key, { name, value }] of before.series)
    if (name === "grpc_server_handled_total" && (after.series.get(key)?.value ?? 0) < value) return false;
  return true;
}

/** Computes figures from two scrapes of one process. */
export function figuresOf(before: Scrape, after: Scrape): Figures {
  const seconds = Math.max(0.001, (after.atMs - before.atMs) / 1000);
  const grown = [...after.series].map(([key, series]) => ({
    ...series,
    value: series.value - (before.series.get(key)?.value ?? 0),
  }));
  const handled = named(grown, "grpc_server_handled_total");
  const handling = named(grown, "grpc_server_handling_seconds_bucket");
  const errors = handled.filter(({ labels }) => labels["grpc_code"] !== "OK");
  const redisTimes = named(grown, "ugs_redis_duration_seconds_bucket");
  const redisErrors = byLabel(named(grown, "ugs_redis_errors_total"), "operation");
  const workOf = (name: string, count: number, failed: number, buckets: readonly Series[]): Work => ({
    name,
    count,
    perSecond: count / seconds,
    failed,
    p99: quantileOf(buckets, 0.99),
  });
  const failures = byLabel(errors, METHOD);
  const times = groupsBy(handling, METHOD);
  const trips = byLabel(named(grown, "ugs_redis_duration_seconds_count"), "operation");
  const tripTimes = groupsBy(redisTimes, "operation");
  const present = (name: string) => sum(named([...after.series.values()], name));
  return {
    seconds,
    all: workOf("all", sum(handled), sum(errors), handling),
    methods: most([...byLabel(handled, METHOD)]).map(([name, count]) =>
      workOf(name, count, failures.get(name) ?? 0, times.get(name) ?? []),
    ),
    errors: most(
      [...groupsBy(errors, METHOD)].flatMap(([method, ofMethod]) =>
        [...byLabel(ofMethod, "grpc_code")].map(([code, count]) => [`${method} ${code}`, count] as const),
      ),
    ).map(([name, count]) => {
      const [method = "", code = ""] = name.split(" ");
      return { method, code, count };
    }),
    redis: most([...trips]).map(([name, count]) =>
      workOf(name, count, redisErrors.get(name) ?? 0, tripTimes.get(name) ?? []),
    ),
    limited: sum(named(grown, "ugs_limited_total")),
    inFlight: present("grpc_server_in_flight"),
    workers: present("ugs_workers"),
    workerExits: present("ugs_worker_exits_total"),
    memoryBytes: present("process_resident_memory_bytes"),
    isRedisReady: readyOf(after),
  };
}

function readyOf({ series }: Scrape): boolean | undefined {
  const ready = series.get("ugs_redis_ready");
  return ready && ready.value === 1;
}

function named(series: readonly Series[], name: string): Series[] {
  return series.filter((each) => each.name === name);
}

function sum(series: readonly Series[]): number {
  return series.reduce((before, { value }) => before + value, 0);
}

function groupsBy(series: readonly Series[], label: string): Map<string, Series[]> {
  const groups = new Map<string, Series[]>();
  for (const each of series) {
    const key = each.labels[label] ?? "";
    groups.set(key, [...(groups.get(key) ?? []), each]);
  }
  return groups;
}

function byLabel(series: readonly Series[], label: string): Map<string, number> {
  return new Map([...groupsBy(series, label)].map(([key, group]) => [key, sum(group)]));
}

/** The counts above zero, the highest first. */
function most<T extends readonly [string, number]>(counts: readonly T[]): T[] {
  return counts.filter(([, count]) => count > 0).sort(([a, x], [b, y]) => y - x || (a < b ? -1 : 1));
}

/**
 * A quantile of a histogram: linear within a bucket, as Prometheus' `histogram_quantile`. Undefined if the histogram is
 * empty.
 */
function quantileOf(buckets: readonly Series[], share: number): Quantile | undefined {
  const cumulative = [...byLabel(buckets, "le")]
    .map(([le, count]) => ({ le: parseValue(le), count }))
    .sort((a, b) => a.le - b.le);
  const rank = share * (cumulative.at(-1)?.count ?? 0);
  if (rank === 0) return undefined;
  let [lower, below] = [0, 0];
  for (const { le, count } of cumulative) {
    if (count >= rank) {
      if (le === Number.POSITIVE_INFINITY) return { seconds: lower, isMore: true };
      return { seconds: lower + (le - lower) * ((rank - below) / (count - below)), isMore: false };
    }
    [lower, below] = [le, count];
  }
  return undefined;
}
