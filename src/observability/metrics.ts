import { promisify } from "node:util";
import { gzip } from "node:zlib";
import type { DescMethod } from "@bufbuild/protobuf";
import { AggregatorRegistry, Counter, collectDefaultMetrics, Registry } from "prom-client";
import { ArrayHistogram, CallMetrics, type CallSeries } from "./call-metrics.ts";

/** A completed round trip to the store. */
export interface StoreObservation {
  readonly operation: string;
  readonly seconds: number;
  readonly failed: boolean;
}

/** The names of the limits on callers. */
const LIMITS = ["api-token", "address"] as const;

/** What is limited, by the name that metrics and `RateLimit-Policy` have for it. */
export type LimitName = (typeof LIMITS)[number];

const CALL_BUCKETS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5];

/** The metrics of a process, for Prometheus. */
export class Metrics {
  readonly #registry = new Registry();
  readonly #calls = new CallMetrics(this.#registry, CALL_BUCKETS);
  readonly #storeSeconds = new ArrayHistogram(
    {
      name: "ugs_redis_duration_seconds",
      help: "How long round trips to Redis took, by operation",
      labelNames: ["operation"],
      buckets: CALL_BUCKETS,
    },
    this.#registry,
  );
  readonly #storeErrors = new Counter({
    name: "ugs_redis_errors_total",
    help: "Round trips to Redis that failed, by operation",
    labelNames: ["operation"],
    registers: [this.#registry],
  });
  readonly #limited = new Counter({
    name: "ugs_limited_total",
    help: "Calls that were refused because a limit was reached, by limit",
    labelNames: ["limit"],
    registers: [this.#registry],
  });
  readonly #auditDropped = new Counter({
    name: "ugs_audit_dropped_total",
    help: "Updates that were dropped from the audit trail because there were more than AUDIT_MAX_EVENTS",
    registers: [this.#registry],
  });
  readonly #imported = new Counter({
    name: "ugs_import_results_total",
    help: "User groups that were to be imported, by what became of them: created, updated, unchanged, or why they failed",
    labelNames: ["result"],
    registers: [this.#registry],
  });
  /** The observe function of each operation. */
  readonly #storeChildren = new Map<string, (seconds: number) => void>();
  readonly #exposing = new Map<MetricsFormat, Promise<Exposition | undefined>>();

  readonly #ofAllWorkers: (() => Promise<string | undefined>) | undefined;

  /** @param ofAllWorkers collects the metrics of all workers; undefined: this process is the only one */
  constructor(ofAllWorkers?: () => Promise<string | undefined>) {
    this.#ofAllWorkers = ofAllWorkers;
    collectDefaultMetrics({ register: this.#registry });
    // So that a monitor sees the first refusal.
    for (const limit of LIMITS) this.#limited.inc({ limit }, 0);
  }

  /** The metrics of this process alone, for `aggregate`. */
  async own(): Promise<string> {
    return JSON.stringify(await this.#registry.getMetricsAsJSON());
  }

  /** The counters for calls of a method; undefined: of none that is served. They exist from now on. */
  calls(method: DescMethod | undefined, protocol: string): CallSeries {
    return this.#calls.series(method, protocol);
  }

  /** Counts and times a round trip to the store. */
  observeStore({ operation, seconds, failed }: StoreObservation): void {
    if (failed) this.#storeErrors.inc({ operation });
    let observe = this.#storeChildren.get(operation);
    if (!observe) {
      observe = this.#storeSeconds.labels(operation);
      this.#storeChildren.set(operation, observe);
    }
    observe(seconds);
  }

  /** Counts a call that a limit refuses. */
  limited(limit: LimitName): void {
    this.#limited.inc({ limit });
  }

  /** Counts a user group that was to be imported. @param result what became of them */
  imported(result: string): void {
    this.#imported.inc({ result });
  }

  /** Counts updates that were dropped from the audit trail. */
  auditDropped(count: number): void {
    this.#auditDropped.inc(count);
  }

  /**
   * All metrics of this process or, in a worker, of all workers. Undefined when those of another worker could not be
   * collected: without them the counters would seem to fall.
   */
  expose(format: MetricsFormat = "prometheus"): Promise<Exposition | undefined> {
    // This endpoint is open, and collecting costs every worker time, so concurrent requests share one collection.
    let exposing = this.#exposing.get(format);
    if (!exposing) {
      exposing = this.#collect(format).finally(() => this.#exposing.delete(format));
      this.#exposing.set(format, exposing);
    }
    return exposing;
  }

  async #collect(format: MetricsFormat): Promise<Exposition | undefined> {
    const text = await (this.#ofAllWorkers ? this.#ofAllWorkers() : this.#registry.metrics());
    return text === undefined ? undefined : new Exposition(text, format);
  }
}

/** The metrics of several processes as those of one. @param texts what `own` gave in each */
export function aggregate(texts: readonly string[]): Promise<string> {
  return AggregatorRegistry.aggregate(texts.map((text) => JSON.parse(text))).metrics();
}

const compress = promisify(gzip);

/** A metrics text format. */
type MetricsFormat = "prometheus" | "openmetrics";

/** All metrics as text. The text is compressed once for all who ask. */
export class Exposition {
  readonly contentType: string;
  readonly text: string;
  #gzipped: Promise<Uint8Array> | undefined;

  /** @param text in Prometheus' text format */
  constructor(text: string, format: MetricsFormat) {
    this.contentType = format === "openmetrics" ? Registry.OPENMETRICS_CONTENT_TYPE : Registry.PROMETHEUS_CONTENT_TYPE;
    this.text = format === "openmetrics" ? openMetrics(text) : text;
  }

  gzipped(): Promise<Uint8Array> {
    this.#gzipped ??= compress(this.text);
    return this.#gzipped;
  }
}

const COUNTER = /^# HELP (\S+)_total (.*)\n# TYPE \1_total counter$/gm;

/**
 * Converts Prometheus' text format to OpenMetrics 1.0 (https://prometheus.io/docs/specs/om/open_metrics_spec/): a
 * counter family's name lacks the suffix `_total`, there are no empty lines, and `# EOF` ends the text. prom-client's
 * own conversion renames metrics in the registry, and does not work on aggregated metrics of workers.
 */
function openMetrics(text: string): string {
  const renamed = text.replace(COUNTER, "# HELP $1 $2\n# TYPE $1 counter");
  // prom-client writes `Nan`, the format demands `NaN`.
  const spelled = renamed.replace(/ Nan$/gm, " NaN");
  return `${spelled.replace(/\n{2,}/g, "\n").trimEnd()}\n# EOF\n`;
}

const OPENMETRICS_TYPE = /^application\/openmetrics-text *(?:;|$)/i;
const VERSION = /; *version="?([\d.]+)"?/i;

/**
 * The format that an `Accept` header asks for: OpenMetrics 1.0 if it is accepted with at least the preference of plain
 * text, else Prometheus.
 */
export function formatOf(accept: string): MetricsFormat {
  const items = accept.split(",").map((item) => item.trim());
  const best = (matches: (item: string) => boolean) => Math.max(0, ...items.filter(matches).map(quality));
  const wanted = best((item) => OPENMETRICS_TYPE.test(item) && ["1.0.0", undefined].includes(VERSION.exec(item)?.[1]));
  return wanted > 0 && wanted >= best((item) => item.startsWith("text/plain")) ? "openmetrics" : "prometheus";
}

function quality(item: string): number {
  const text = /; *q=([\d.]+)/i.exec(item)?.[1];
  return text === undefined ? 1 : Number(text) || 0;
}
