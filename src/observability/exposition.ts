import { AggregatorRegistry, Registry } from "prom-client";

/** The result of `getMetricsAsJSON` of prom-client. */
type Collected = Awaited<ReturnType<Registry["getMetricsAsJSON"]>>;

/**
 * How long collected metrics are cached, in milliseconds. Unauthenticated clients may read metrics, and a collection blocks the
 * event loop for 10 to 20 ms. The supervisor caches the metrics of workers for this time, too. So metrics may be twice as old.
 */
export const METRICS_KEPT_MS = 250;

/**
 * The combined metrics of several workers. Counters of exited workers stay in the sums, because falling counters look like a
 * restart to a monitor. Increases after the last collection of a worker are lost when it exits.
 */
export class WorkerMetrics {
  /** The last metrics of each running worker. */
  readonly #lastTexts = new Map<object, string>();
  /** The counters of exited workers. */
  #ended: Collected[] = [];
  #exits = 0;

  /** Sets the metrics of a worker. @param text the result of `Metrics.own` in the worker */
  set(worker: object, text: string): void {
    this.#lastTexts.set(worker, text);
  }

  /** Counts the exit of a worker. */
  end(worker: object): void {
    this.#exits++;
    const last = JSON.parse(this.#lastTexts.get(worker) ?? "[]") as Collected;
    this.#lastTexts.delete(worker);
    this.#ended.push(last.filter(({ type }) => (type as unknown) !== "gauge"));
  }

  /** The combined metrics as text. */
  async expose(): Promise<string> {
    const merged = await AggregatorRegistry.aggregate(this.#ended.splice(0)).getMetricsAsJSON();
    this.#ended.push(merged);
    const exits = { ...EXITS, type: "counter", values: [{ value: this.#exits, labels: {} }], aggregator: "sum" };
    const last = [...this.#lastTexts.values()].map((text) => JSON.parse(text));
    return AggregatorRegistry.aggregate([...last, merged, [exits]]).metrics();
  }
}

/** The counter of exited worker processes. */
export const EXITS = {
  name: "ugs_worker_exits_total",
  help: "Worker processes that exited and were restarted",
} as const;

/** The text formats of metrics, made from that of Prometheus. */
export const METRICS_FORMATS = {
  prometheus: { contentType: Registry.PROMETHEUS_CONTENT_TYPE, of: (text: string) => text },
  openmetrics: { contentType: Registry.OPENMETRICS_CONTENT_TYPE, of: openMetrics },
} as const;

const COUNTER = /^# HELP (\S+)_total (.*)\n# TYPE \1_total counter$/gm;

/**
 * Converts the text format of Prometheus to OpenMetrics 1.0 (https://prometheus.io/docs/specs/om/open_metrics_spec/). There, the
 * name of a counter family has no suffix `_total`, empty lines are not allowed, and `# EOF` ends the text. The conversion of
 * prom-client renames metrics in the registry, and does not support the combined metrics of workers.
 */
function openMetrics(text: string): string {
  const renamed = text.replace(COUNTER, "# HELP $1 $2\n# TYPE $1 counter");
  // prom-client writes `Nan`. The format requires `NaN`.
  const spelled = renamed.replace(/ Nan$/gm, " NaN");
  return `${spelled.replace(/\n{2,}/g, "\n").trimEnd()}\n# EOF\n`;
}

const OPENMETRICS_TYPE = /^application\/openmetrics-text *(?:;|$)/i;
const VERSION = /; *version="?([\d.]+)"?/i;

/**
 * The preferred format of an `Accept` header: OpenMetrics 1.0 if its quality is at least that of plain text, otherwise
 * Prometheus.
 */
export function formatOf(accept: string): keyof typeof METRICS_FORMATS {
  const items = accept.split(",").map((item) => item.trim());
  const best = (matches: (item: string) => boolean) => Math.max(0, ...items.filter(matches).map(quality));
  const wanted = best((item) => OPENMETRICS_TYPE.test(item) && ["1.0.0", undefined].includes(VERSION.exec(item)?.[1]));
  return wanted > 0 && wanted >= best((item) => item.startsWith("text/plain")) ? "openmetrics" : "prometheus";
}

function quality(item: string): number {
  const text = /; *q=([\d.]+)/i.exec(item)?.[1];
  return text === undefined ? 1 : Number(text) || 0;
}
