import { Counter, Histogram, type Registry } from "prom-client";
import type { CounterOptions } from "../../src/observability/lean-counter.ts";
import type { HistogramOptions } from "../../src/observability/lean-histogram.ts";

/* prom-client's own counter and histogram, their children kept. */

export const LeanCounter = () =>
  class {
    readonly #counter: Counter;

    constructor(options: CounterOptions, registry: Registry) {
      this.#counter = new Counter({ ...options, registers: [registry] });
    }

    labels(...values: string[]): () => void {
      const child = this.#counter.labels(...values);
      return () => child.inc();
    }
  };

export const LeanHistogram = () =>
  class {
    readonly #histogram: Histogram;

    constructor(options: HistogramOptions, registry: Registry) {
      this.#histogram = new Histogram({ ...options, buckets: [...options.buckets], registers: [registry] });
    }

    labels(...values: string[]): (seconds: number) => void {
      const child = this.#histogram.labels(...values);
      return (seconds) => child.observe(seconds);
    }
  };
