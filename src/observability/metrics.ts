import cluster from "node:cluster";
import { AggregatorRegistry, Counter, collectDefaultMetrics, Registry } from "prom-client";
import { LeanCounter } from "./lean-counter.ts";
import { LeanHistogram } from "./lean-histogram.ts";
import { metricsOfAllWorkers } from "./worker-metrics.ts";

/** A call that has ended. */
export interface CallObservation {
  /** `package.Service/Method`. */
  readonly method: string;
  readonly protocol: string;
  /** `ok`, or the Connect code. */
  readonly code: string;
  readonly seconds: number;
}

/** A round trip to the store that has ended. */
export interface StoreObservation {
  readonly operation: string;
  readonly seconds: number;
  readonly failed: boolean;
}

const CALL_BUCKETS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5];

/** What is counted and timed, for Prometheus. */
export class Metrics {
  readonly #registry = new Registry();
  readonly #calls = new LeanCounter(
    {
      name: "ugs_calls_total",
      help: "Calls that ended, by method, protocol and code",
      labelNames: ["method", "protocol", "code"],
    },
    this.#registry,
  );
  readonly #callSeconds = new LeanHistogram(
    {
      name: "ugs_call_duration_seconds",
      help: "How long calls took, by method and protocol",
      labelNames: ["method", "protocol"],
      buckets: CALL_BUCKETS,
    },
    this.#registry,
  );
  readonly #storeSeconds = new LeanHistogram(
    {
      name: "ugs_redis_duration_seconds",
      help: "How long round trips to Redis took, by operation",
      labelNames: ["operation"],
      buckets: CALL_BUCKETS,
    },
    this.#registry,
  );
  readonly #storeErrors = new Counter({
    name: "ugs_redis_errors_total",
    help: "Round trips to Redis that failed, by operation",
    labelNames: ["operation"],
    registers: [this.#registry],
  });
  /** Label sets are few; looking one up costs less than prom-client's hashing of it. */
  readonly #callChildren = new Map<string, Map<string, Map<string, (seconds: number) => void>>>();
  readonly #storeChildren = new Map<string, (seconds: number) => void>();
  #exposing: Promise<{ contentType: string; text: string }> | undefined;

  constructor() {
    collectDefaultMetrics({ register: this.#registry });
    // One of several workers: the supervisor asks for its share.
    if (cluster.isWorker) {
      new AggregatorRegistry();
      AggregatorRegistry.setRegistries([this.#registry]);
    }
  }

  observeCall({ method, protocol, code, seconds }: CallObservation): void {
    const observe = this.#callChildren.get(method)?.get(protocol)?.get(code);
    if (observe) observe(seconds);
    else this.#newCallChild(method, protocol, code)(seconds);
  }

  #newCallChild(method: string, protocol: string, code: string): (seconds: number) => void {
    const count = this.#calls.labels(method, protocol, code);
    const observeSeconds = this.#callSeconds.labels(method, protocol);
    const child = (seconds: number) => {
      count();
      observeSeconds(seconds);
    };
    const ofMethod = this.#callChildren.get(method) ?? new Map();
    const ofProtocol = ofMethod.get(protocol) ?? new Map();
    this.#callChildren.set(method, ofMethod.set(protocol, ofProtocol.set(code, child)));
    return child;
  }

  observeStore({ operation, seconds, failed }: StoreObservation): void {
    if (failed) this.#storeErrors.inc({ operation });
    let observe = this.#storeChildren.get(operation);
    if (!observe) {
      observe = this.#storeSeconds.labels(operation);
      this.#storeChildren.set(operation, observe);
    }
    observe(seconds);
  }

  /** All of it, and that of the other workers, in Prometheus' text format, with its content type. */
  expose(): Promise<{ contentType: string; text: string }> {
    // Anybody may ask, and collecting is work for every worker: it is done once for all who ask meanwhile.
    this.#exposing ??= this.#collect().finally(() => {
      this.#exposing = undefined;
    });
    return this.#exposing;
  }

  async #collect(): Promise<{ contentType: string; text: string }> {
    const ofAll = cluster.isWorker ? await metricsOfAllWorkers(process) : undefined;
    const text = ofAll ?? (await this.#registry.metrics());
    return { contentType: this.#registry.contentType, text };
  }
}
