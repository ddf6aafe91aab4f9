import type { Registry } from "prom-client";
import { LabelledSeries, type Labels } from "./labelled-series.ts";

/** What a counter counts. */
export interface CounterOptions {
  readonly name: string;
  readonly help: string;
  readonly labelNames: readonly string[];
}

/**
 * A counter of prom-client's registry whose label values are looked up once:
 * prom-client's own makes a text of them whenever it counts. It is exposed alike
 * (https://prometheus.io/docs/concepts/metric_types/#counter).
 */
export class LeanCounter {
  readonly #options: CounterOptions;
  readonly #type: "counter" | "gauge";
  readonly #series: LabelledSeries<{ readonly labels: Labels; value: number }>;

  /** @param type a gauge may count down, too */
  constructor(options: CounterOptions, registry: Registry, type: "counter" | "gauge" = "counter") {
    this.#options = options;
    this.#type = type;
    this.#series = new LabelledSeries(options.labelNames, (labels) => ({ labels, value: 0 }));
    registry.registerMetric(this as never);
  }

  get name(): string {
    return this.#options.name;
  }

  /** What counts under these label values, in the order of the label names, by default one; ask for it once and keep it. */
  labels(...values: readonly string[]): (by?: number) => void {
    const series = this.#series.get(values);
    return (by = 1) => {
      series.value += by;
    };
  }

  /** All of it, as prom-client's registry asks for it. */
  async get() {
    const { name, help } = this.#options;
    const values = this.#series.all().map(({ labels, value }) => ({ labels, value }));
    return { name, help, type: this.#type, values, aggregator: "sum" };
  }
}
