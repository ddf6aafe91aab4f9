import cluster, { type Worker } from "node:cluster";
import { AggregatorRegistry } from "prom-client";
import { announce } from "./announce.ts";
import type { Config } from "./config/config.ts";
import { errorFields, type Log } from "./observability/log.ts";
import type { MetricsMessage } from "./observability/worker-metrics.ts";

/** A worker that ends sooner than this after its start is not restarted at once, in milliseconds. */
const RESTART_DELAY_MS = 1000;

/** How much longer than its own timeout a worker may take to end, in milliseconds. */
const EXIT_SLACK_MS = 2000;

/** How many workers may end without a reason before they listen, until the start is given up. */
const MAX_ENDS_AT_START = 5;

/** What a worker says of its start. */
export type StartMessage =
  | { readonly kind: "listening"; readonly url: string; readonly metricsUrl: string | undefined }
  | { readonly kind: "failed"; readonly reason: string };

/** How a worker ended. */
interface EndOfWorker {
  readonly pid?: number | undefined;
  readonly code?: number | null;
  readonly signal?: string | null;
  /** Why it could not start, in its own words. */
  readonly reason: string | undefined;
}

/** Workers that cannot start; the message says why. */
export class WorkersFailed extends Error {}

/** Tells the supervisor of this worker how its start went. */
export function tellSupervisor(message: StartMessage): void {
  const leave = () => void cluster.worker?.disconnect();
  // Without its channel a worker that failed has nothing left to do, and ends.
  process.send?.(message, undefined, undefined, message.kind === "failed" ? leave : undefined);
}

/** Runs the workers of one port: starts them again when they crash, and drains them at the end. */
export class Supervisor {
  readonly #config: Config;
  readonly #log: Log;
  readonly #registry = new AggregatorRegistry();
  readonly #timers = new Set<ReturnType<typeof setTimeout>>();
  /** Those whose process is there. */
  readonly #workers = new Set<Worker>();
  /** Those of them that listen. */
  readonly #listening = new Set<Worker>();
  /** What waits for the start; undefined when it has ended, well or not. */
  #start: { readonly resolve: () => void; readonly reject: (error: Error) => void } | undefined;
  #endsAtStart = 0;
  #closing = false;

  constructor(config: Config, log: Log) {
    this.#config = config;
    this.#log = log;
  }

  /**
   * Starts the workers and resolves when all of them listen.
   *
   * @throws WorkersFailed when one says why it cannot, or too many end without a word; all have ended then
   */
  async start(): Promise<void> {
    const started = new Promise<void>((resolve, reject) => {
      this.#start = { resolve, reject };
    });
    for (let i = 0; i < this.#config.workers; i++) this.#fork();
    try {
      await started;
    } catch (error) {
      await this.#end();
      throw error;
    }
  }

  /** Has every worker finish what is under way and end; ends those that do not in time. */
  async close(): Promise<void> {
    this.#log.logger.info("shutting down");
    await this.#end();
    this.#log.logger.info("closed");
  }

  async #end(): Promise<void> {
    this.#closing = true;
    for (const timer of this.#timers) clearTimeout(timer);
    const workers = [...this.#workers];
    // Not by `once` of node:events, which an error of one, such as a closed channel, would end for all.
    const ended = Promise.all(workers.map((worker) => new Promise((resolve) => worker.once("exit", resolve))));
    for (const worker of workers) worker.process.kill("SIGTERM");
    const timer = setTimeout(() => {
      for (const worker of workers) worker.process.kill("SIGKILL");
    }, this.#config.shutdownTimeoutMs + EXIT_SLACK_MS);
    await ended;
    clearTimeout(timer);
  }

  #fork(): void {
    const worker = cluster.fork();
    const { pid } = worker.process;
    const started = performance.now();
    let reason: string | undefined;
    worker.on("message", (message: MetricsMessage | StartMessage) => {
      if (message?.kind === "metrics") void this.#sendMetrics(worker, message.id);
      else if (message?.kind === "listening") this.#onListening(worker, message);
      else if (message?.kind === "failed") reason = message.reason;
    });
    // A message to a worker that has just died, or a process that cannot be made: unheard, it would end them all.
    worker.on("error", (error) => {
      this.#log.logger.warn(errorFields(error), "a worker cannot be reached");
      // Of a process that never was nothing else says that it ended.
      if (pid === undefined) this.#onEnd({ started, listened: false, why: { reason } });
    });
    if (pid === undefined) return;
    this.#workers.add(worker);
    worker.once("exit", (code, signal) => {
      this.#workers.delete(worker);
      this.#onEnd({ started, listened: this.#listening.delete(worker), why: { pid, code, signal, reason } });
    });
  }

  #onEnd({ started, listened, why }: { started: number; listened: boolean; why: EndOfWorker }): void {
    if (this.#closing) return;
    if (this.#start && !listened && (why.reason !== undefined || ++this.#endsAtStart > MAX_ENDS_AT_START)) {
      this.#closing = true;
      const how = why.signal ?? `exit code ${why.code}`;
      this.#start.reject(new WorkersFailed(why.reason ?? `workers end before they listen (${how})`));
      return;
    }
    this.#log.logger.error(why, "a worker ended; starting another");
    const delay = performance.now() - started < RESTART_DELAY_MS ? RESTART_DELAY_MS : 0;
    const timer = setTimeout(() => {
      this.#timers.delete(timer);
      this.#fork();
    }, delay);
    this.#timers.add(timer);
  }

  #onListening(worker: Worker, { url, metricsUrl }: StartMessage & { kind: "listening" }): void {
    this.#listening.add(worker);
    const { workers } = this.#config;
    if (!this.#start || this.#listening.size < workers) return;
    announce(this.#log, { url, metricsUrl, workers, madeTokens: [] });
    this.#start.resolve();
    this.#start = undefined;
  }

  async #sendMetrics(worker: Worker, id: number): Promise<void> {
    const text = await this.#registry.clusterMetrics().catch((error: unknown) => {
      this.#log.logger.warn(errorFields(error), "the metrics of all workers could not be collected");
      return undefined;
    });
    if (worker.isConnected()) worker.send({ kind: "metrics", id, text } satisfies MetricsMessage);
  }
}
