import type { Registry } from "prom-client";

/** The label values of a series, by label name. */
type Labels = { readonly [name: string]: string };

/** The options of a histogram. */
export interface HistogramOptions {
  readonly name: string;
  readonly help: string;
  readonly labelNames: readonly string[];
  /** Upper bounds in ascending order. */
  readonly buckets: readonly number[];
}

/** The observations of one set of label values. */
class Series {
  readonly labels: Labels;
  /** The number of observations in each bucket, and above the last bound. */
  readonly counts: number[];
  sum = 0;
  readonly #bounds: readonly number[];

  constructor(labels: Labels, bounds: readonly number[]) {
    this.labels = labels;
    this.#bounds = bounds;
    this.counts = new Array<number>(bounds.length + 1).fill(0);
  }

  observe(value: number): void {
    const bounds = this.#bounds;
    let i = 0;
    while (i < bounds.length && value > (bounds[i] as number)) i++;
    this.counts[i] = (this.counts[i] as number) + 1;
    this.sum += value;
  }
}

/**
 * A histogram for prom-client's registry that counts in arrays. prom-client's own histogram builds a string of the
 * labels for every observation. The exposed text is the same
 * (https://prometheus.io/docs/concepts/metric_types/#histogram).
 */
export class ArrayHistogram {
  readonly #options: HistogramOptions;
  readonly #series = new Map<string, Series>();

  constructor(options: HistogramOptions, registry: Registry) {
    this.#options = options;
    registry.registerMetric(this as never);
  }

  get name(): string {
    return this.#options.name;
  }

  /**
   * Returns the observe function of one set of label values, given in the order of the label names. Keep the function:
   * looking it up is slow.
   */
  labels(...values: readonly string[]): (value: number) => void {
    const { labelNames, buckets } = this.#options;
    const key = JSON.stringify(values);
    const labels = Object.fromEntries(labelNames.map((name, i) => [name, values[i] ?? ""]));
    const series = this.#series.get(key) ?? new Series(labels, buckets);
    this.#series.set(key, series);
    return (value) => series.observe(value);
  }

  /** All series, as prom-client's registry expects them. */
  async get() {
    const { name, help, buckets } = this.#options;
    const values = [...this.#series.values()].flatMap(({ labels, counts, sum }) => {
      let total = 0;
      const cumulative = counts.map((count, i) => {
        total += count;
        const le: number | string = buckets[i] ?? "+Inf";
        return { metricName: `${name}_bucket`, labels: { le, ...labels }, value: total };
      });
      return [
        ...cumulative,
        { metricName: `${name}_sum`, labels, value: sum },
        { metricName: `${name}_count`, labels, value: total },
      ];
    });
    return { name, help, type: "histogram", values, aggregator: "sum" };
  }
}
