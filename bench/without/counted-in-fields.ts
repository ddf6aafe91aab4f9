import { Counter, Gauge, Registry } from "prom-client";
import type { CallSeries, CallMetrics as Metrics } from "../../src/observability/call-metrics.ts";

/* prom-client's own counters and gauge count every call, their children kept. */

const registers = [new Registry()];
const LABELS = ["grpc_type", "grpc_service", "grpc_method", "protocol"];
const started = new Counter({ name: "started", help: "-", labelNames: LABELS, registers });
const handled = new Counter({ name: "handled", help: "-", labelNames: [...LABELS, "grpc_code"], registers });
const inFlight = new Gauge({ name: "in_flight", help: "-", labelNames: LABELS, registers });

export const CallMetrics = (original: typeof Metrics): typeof Metrics =>
  class extends original {
    readonly #counted = new Map<CallSeries, CallSeries>();

    override series(...args: Parameters<Metrics["series"]>): CallSeries {
      const series = super.series(...args);
      let counted = this.#counted.get(series);
      if (!counted) {
        counted = countedBy(series);
        this.#counted.set(series, counted);
      }
      return counted;
    }
  };

function countedBy(series: CallSeries): CallSeries {
  const labels = Object.values(series.labels);
  const begun = started.labels(...labels);
  const underWay = inFlight.labels(...labels);
  const ended = new Map<string, { inc(): void }>();
  return {
    start() {
      series.start();
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
  } satisfies Pick<CallSeries, "start" | "end"> as unknown as CallSeries;
}
