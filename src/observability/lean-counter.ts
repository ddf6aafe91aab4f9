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
  readonly #series: LabelledSeries<{ readonly labels: Labels; value: number }>;

  constructor(options: CounterOptions, registry: Registry) {
    this.#options = options;
    this.#series = new LabelledSeries(options.labelNames, (labels) => ({ labels, value: 0 }));
    registry.registerMetric(this as never);
  }

  get name(): string {
    return this.#options.name;
  }

  /** What counts one under these label values, in the order of the label names; ask for it once and keep it. */
  labels(...values: readonly string[]): () => void {
    const series = this.#series.get(values);
    return () => {
      series.value++;
    };
  }

  /** All of it, as prom-client's registry asks for it. */
  async get() {
    const { name, help } = this.#options;
    const values = this.#series.all().map(({ labels, value }) => ({ labels, value }));
    return { name, help, type: "counter", values, aggregator: "sum" };
  }
}
