import type { Registry } from "prom-client";
import { LeanCounter } from "./lean-counter.ts";
import { LeanHistogram } from "./lean-histogram.ts";

/** How gRPC names success. */
export const CODE_OK = "OK";

/** What is called. One and the same object for each, so that its series are found at once. */
export interface CallKind {
  /** As gRPC's metrics name it. */
  readonly type: "unary" | "client_stream" | "server_stream" | "bidi_stream";
  /** Such as `package.Service`; of what is not served `unknown`, for callers must not choose what is kept. */
  readonly service: string;
  readonly method: string;
}

/** What is counted of the calls of one kind over one protocol. */
export interface CallSeries {
  /** A call begins; it must end. */
  start(): void;
  /** @param code as gRPC names it, such as `OK` or `NotFound` */
  end(code: string, seconds: number): void;
}

/** What is counted and timed of calls, by the names that gRPC servers have for it (github.com/grpc-ecosystem/go-grpc-prometheus). */
export class CallMetrics {
  readonly #started: LeanCounter;
  readonly #handled: LeanCounter;
  readonly #inFlight: LeanCounter;
  readonly #seconds: LeanHistogram;
  readonly #series = new Map<CallKind, Map<string, OneCallSeries>>();

  /** @param buckets upper bounds in seconds, rising */
  constructor(registry: Registry, buckets: readonly number[]) {
    const labelNames = ["grpc_type", "grpc_service", "grpc_method", "protocol"];
    this.#started = new LeanCounter(
      { name: "grpc_server_started_total", help: "Calls that began", labelNames },
      registry,
    );
    this.#handled = new LeanCounter(
      {
        name: "grpc_server_handled_total",
        help: "Calls that ended, by code",
        labelNames: [...labelNames, "grpc_code"],
      },
      registry,
    );
    this.#inFlight = new LeanCounter(
      { name: "grpc_server_in_flight", help: "Calls that are under way", labelNames },
      registry,
      "gauge",
    );
    this.#seconds = new LeanHistogram(
      { name: "grpc_server_handling_seconds", help: "How long unary calls took", labelNames, buckets },
      registry,
    );
  }

  /** @param codes those whose series are there from the start */
  series(kind: CallKind, protocol: string, codes: readonly string[] = []): CallSeries {
    const ofKind = this.#series.get(kind) ?? new Map<string, OneCallSeries>();
    let series = ofKind.get(protocol);
    if (!series) {
      const labels = [kind.type, kind.service, kind.method, protocol];
      series = new OneCallSeries({
        started: this.#started.labels(...labels),
        inFlight: this.#inFlight.labels(...labels),
        // A stream takes as long as its caller listens.
        seconds: kind.type === "unary" ? this.#seconds.labels(...labels) : undefined,
        handled: (code) => this.#handled.labels(...labels, code),
      });
      this.#series.set(kind, ofKind.set(protocol, series));
    }
    for (const code of codes) series.handled(code);
    return series;
  }
}

interface SeriesParts {
  readonly started: () => void;
  readonly inFlight: (by: number) => void;
  readonly seconds: ((seconds: number) => void) | undefined;
  readonly handled: (code: string) => () => void;
}

class OneCallSeries implements CallSeries {
  readonly #parts: SeriesParts;
  readonly #byCode = new Map<string, () => void>();

  constructor(parts: SeriesParts) {
    this.#parts = parts;
  }

  start(): void {
    this.#parts.started();
    this.#parts.inFlight(1);
  }

  end(code: string, seconds: number): void {
    this.#parts.inFlight(-1);
    this.handled(code)();
    this.#parts.seconds?.(seconds);
  }

  handled(code: string): () => void {
    let count = this.#byCode.get(code);
    if (!count) {
      count = this.#parts.handled(code);
      this.#byCode.set(code, count);
    }
    return count;
  }
}
