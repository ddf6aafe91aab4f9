import { Counter, Gauge, Registry } from "prom-client";
import type { CallSeries, CallMetrics as Metrics } from "../../src/observability/metrics.ts";

/* prom-client's own counters and gauge count every call, their children kept. */

const registers = [new Registry()];
const LABELS = ["grpc_type", "grpc_service", "grpc_method", "protocol"];
const started = new Counter({ name: "started", help: "-", labelNames: LABELS, registers });
const handled = new Counter({ name: "handled", help: "-", labelNames: [...LABELS, "grpc_code"], registers });
const inFlight = new Gauge({ name: "in_flight", help: "-", labelNames: LABELS, registers });

export const CallMetrics = (original: typeof Metrics): typeof Metrics =>
  class extends original {
    readonly #counted = new Map<CallSeries, Counted>();

    override begin(...args: Parameters<Metrics["begin"]>): CallSeries {
      const series = super.begin(...args);
      let counted = this.#counted.get(series);
      if (!counted) {
        counted = countedBy(series);
        this.#counted.set(series, counted);
      }
      counted.start();
      return counted as unknown as CallSeries;
    }
  };

interface Counted extends Pick<CallSeries, "end"> {
  start(): void;
}

function countedBy(series: CallSeries): Counted {
  const labels = Object.values(series.labels);
  const begun = started.labels(...labels);
  const underWay = inFlight.labels(...labels);
  const ended = new Map<string, { inc(): void }>();
  return {
    start() {
      begun.inc();
      underWay.inc();
    },
    end(code, seconds) {
      series.end(code, seconds);
      underWay.dec();
      let child = ended.get(code);
      if (!child) {
        child = handled.labels(...labels, code);
        ended.set(code, child);
      }
      child.inc();
    },
  };
}
