import { AggregatorRegistry, Registry } from "prom-client";

type Collected = Awaited<ReturnType<Registry["getMetricsAsJSON"]>>;

/**
 * How long collected metrics are cached, in milliseconds. Unauthenticated clients may read metrics, and a collection
 * blocks the event loop for 10 to 20 ms. The supervisor caches the metrics of workers for this time, too. So the age of
 * metrics may be twice this time.
 */
export const METRICS_KEPT_MS = 250;

/**
 * The combined metrics of several workers. Counters of exited workers stay in the sums, because falling counters look like a
 * restart to a monitor. Increases after the last collection of a worker are lost when it exits.
 */
export class WorkerMetrics {
  readonly #lastTexts = new Map<object, string>();
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

/** The content type of metrics in the text format of Prometheus. */
export const METRICS_TYPE = Registry.PROMETHEUS_CONTENT_TYPE;
