import { AggregatorRegistry, Registry } from "prom-client";

type Collected = Awaited<ReturnType<Registry["getMetricsAsJSON"]>>;

/**
 * The time for which the supervisor and each worker cache collected metrics, in milliseconds. A worker can cache a
 * result that the supervisor has cached for 250 ms, so the metrics of a response can be up to 500 ms old. Without the
 * caches, unauthenticated clients could block the event loop, because a collection takes 10 to 20 ms.
 */
export const METRICS_KEPT_MS = 250;

/**
 * The combined metrics of several workers. Counters of exited workers stay in the sums, because monitors interpret a
 * falling counter as a restart of the service. If a worker exits, its counts since the last collection are lost.
 */
export class WorkerMetrics {
  readonly #lastTexts = new Map<object, string>();
  #ended: Collected[] = [];
  #exits = 0;

  /** @param text the result of `Metrics.own` in the worker */
  set(worker: object, text: string): void {
    this.#lastTexts.set(worker, text);
  }

  end(worker: object): void {
    this.#exits++;
    const last = JSON.parse(this.#lastTexts.get(worker) ?? "[]") as Collected;
    this.#lastTexts.delete(worker);
    this.#ended.push(last.filter(({ type }) => (type as unknown) !== "gauge"));
  }

  async expose(): Promise<string> {
    const merged = await AggregatorRegistry.aggregate(this.#ended.splice(0)).getMetricsAsJSON();
    this.#ended.push(merged);
    const exits = { ...EXITS, type: "counter", values: [{ value: this.#exits, labels: {} }], aggregator: "sum" };
    const last = [...this.#lastTexts.values()].map((text) => JSON.parse(text));
    return AggregatorRegistry.aggregate([...last, merged, [exits]]).metrics();
  }
}

export const EXITS = {
  name: "ugs_worker_exits_total",
  help: "Worker processes that exited and were restarted",
} as const;

export const METRICS_TYPE = Registry.PROMETHEUS_CONTENT_TYPE;
