import { Histogram, type Registry } from "prom-client";
import type { HistogramOptions } from "../../src/observability/metrics.ts";

/* prom-client's own histogram, its children kept. */

export const ArrayHistogram = () =>
  class {
    readonly #histogram: Histogram;

    constructor(options: HistogramOptions, registry: Registry) {
      this.#histogram = new Histogram({
        ...options,
        labelNames: [...options.labelNames],
        buckets: [...options.buckets],
        registers: [registry],
      });
    }

    labels(...values: string[]): (seconds: number) => void {
      const child = this.#histogram.labels(...values);
      return (seconds) => child.observe(seconds);
    }
  };
