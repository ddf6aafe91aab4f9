import { Counter, Gauge, type Registry } from "prom-client";
import { ArrayHistogram } from "./array-histogram.ts";

/** How gRPC names success. */
export const CODE_OK = "OK";

/** A kind of call. Use the same object for all calls of a kind: its series are found by identity. */
export interface CallKind {
  /** The call type, as gRPC's metrics name it. */
  readonly type: "unary" | "client_stream" | "server_stream" | "bidi_stream";
  /**
   * Such as `package.Service`; `unknown` for methods that are not served, because callers must not be able to create
   * series.
   */
  readonly service: string;
  readonly method: string;
}

/** The counters for calls of one kind over one protocol. */
export interface CallSeries {
  /** Counts the start of a call. Call `end` when it ends. */
  start(): void;
  /** Counts the end of a call. @param code as gRPC names it, such as `OK` or `NotFound` */
  end(code: string, seconds: number): void;
}

const LABELS = ["grpc_type", "grpc_service", "grpc_method", "protocol"] as const;

/**
 * Call metrics with the names that gRPC servers use (github.com/grpc-ecosystem/go-grpc-prometheus). Calls are counted
 * in plain fields, which prom-client reads when it collects: its own counters build a string of the labels every time.
 */
export class CallMetrics {
  readonly #seconds: ArrayHistogram;
  readonly #series = new Map<CallKind, Map<string, OneCallSeries>>();

  /** @param buckets upper bounds in seconds, in ascending order */
  constructor(registry: Registry, buckets: readonly number[]) {
    const all = () => [...this.#series.values()].flatMap((ofKind) => [...ofKind.values()]);
    const registers = [registry];
    new Counter({
      name: "grpc_server_started_total",
      help: "Calls that began",
      labelNames: LABELS,
      registers,
      collect() {
        this.reset();
        for (const { labels, started } of all()) this.inc(labels, started);
      },
    });
    new Counter({
      name: "grpc_server_handled_total",
      help: "Calls that ended, by code",
      labelNames: [...LABELS, "grpc_code"],
      registers,
      collect() {
        this.reset();
        for (const { labels, handled } of all()) {
          for (const [grpc_code, count] of handled) this.inc({ ...labels, grpc_code }, count);
        }
      },
    });
    new Gauge({
      name: "grpc_server_in_flight",
      help: "Calls that are under way",
      labelNames: LABELS,
      registers,
      collect() {
        for (const { labels, inFlight } of all()) this.set(labels, inFlight);
      },
    });
    this.#seconds = new ArrayHistogram(
      { name: "grpc_server_handling_seconds", help: "How long unary calls took", labelNames: LABELS, buckets },
      registry,
    );
  }

  /** Returns the counters for a kind and protocol. @param codes codes whose counters exist from the start */
  series(kind: CallKind, protocol: string, codes: readonly string[] = []): CallSeries {
    const ofKind = this.#series.get(kind) ?? new Map<string, OneCallSeries>();
    let series = ofKind.get(protocol);
    if (!series) {
      series = new OneCallSeries(kind, protocol, this.#seconds);
      this.#series.set(kind, ofKind.set(protocol, series));
    }
    for (const code of codes) series.expect(code);
    return series;
  }
}

class OneCallSeries implements CallSeries {
  readonly labels: Readonly<Record<(typeof LABELS)[number], string>>;
  started = 0;
  inFlight = 0;
  /** The number of calls that ended, by code. */
  readonly handled = new Map<string, number>();
  readonly #observe: ((seconds: number) => void) | undefined;

  constructor({ type, service, method }: CallKind, protocol: string, seconds: ArrayHistogram) {
    this.labels = { grpc_type: type, grpc_service: service, grpc_method: method, protocol };
    // Streams are not timed: they last as long as the client wants.
    this.#observe = type === "unary" ? seconds.labels(type, service, method, protocol) : undefined;
  }

  start(): void {
    this.started++;
    this.inFlight++;
  }

  end(code: string, seconds: number): void {
    this.inFlight--;
    this.handled.set(code, (this.handled.get(code) ?? 0) + 1);
    this.#observe?.(seconds);
  }

  /** Creates the counter of a code, at zero. */
  expect(code: string): void {
    if (!this.handled.has(code)) this.handled.set(code, 0);
  }
}
