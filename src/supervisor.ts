import cluster, { type Worker } from "node:cluster";
import { AggregatorRegistry } from "prom-client";
import { announce } from "./announce.ts";
import type { Config } from "./config/config.ts";
import { errorFields, type Log } from "./observability/log.ts";
import type { MetricsMessage } from "./observability/worker-metrics.ts";

/** A worker that exits sooner than this after its start is restarted with this delay, in milliseconds. */
const RESTART_DELAY_MS = 1000;

/** How long a worker may take to exit beyond the shutdown timeout, in milliseconds. */
const EXIT_SLACK_MS = 2000;

/** How many workers may exit without a reason before they listen, until the start fails. */
const MAX_EXITS_AT_START = 5;

/** What a worker reports about its start. */
export type StartMessage =
  | { readonly kind: "listening"; readonly url: string; readonly metricsUrl: string | undefined }
  | { readonly kind: "failed"; readonly reason: string };

/** How a worker exited. */
interface WorkerExit {
  readonly pid?: number | undefined;
  readonly code?: number | null;
  readonly signal?: string | null;
  /** The worker's explanation of why it could not start. */
  readonly reason: string | undefined;
}

/** The workers cannot start. The message says why. */
export class WorkersFailed extends Error {}

/** Reports to the supervisor how the start of this worker went. */
export function notifySupervisor(message: StartMessage): void {
  const leave = () => void cluster.worker?.disconnect();
  // Once its channel is closed, nothing keeps a failed worker alive.
  process.send?.(message, undefined, undefined, message.kind === "failed" ? leave : undefined);
}

/** Runs the workers that share a port: restarts them when they crash, and drains them at shutdown. */
export class Supervisor {
  readonly #config: Config;
  readonly #log: Log;
  readonly #registry = new AggregatorRegistry();
  readonly #timers = new Set<ReturnType<typeof setTimeout>>();
  /** The running workers. */
  readonly #workers = new Set<Worker>();
  /** The workers that listen. */
  readonly #listening = new Set<Worker>();
  /** The pending start; undefined once it has succeeded or failed. */
  #start: { readonly resolve: () => void; readonly reject: (error: Error) => void } | undefined;
  #exitsAtStart = 0;
  #closing = false;

  constructor(config: Config, log: Log) {
    this.#config = config;
    this.#log = log;
  }

  /**
   * Starts the workers and resolves when all of them listen.
   *
   * @throws WorkersFailed when a worker reports why it cannot start, or too many exit without a report; all workers
   *   have exited by then
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

  /** Lets every worker finish its calls and exit; kills those that take too long. */
  async close(): Promise<void> {
    this.#log.logger.info("shutting down");
    await this.#end();
    this.#log.logger.info("closed");
  }

  async #end(): Promise<void> {
    this.#closing = true;
    for (const timer of this.#timers) clearTimeout(timer);
    const workers = [...this.#workers];
    // Not `once` of node:events: it would reject on an `error` event of any worker, such as a closed channel.
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
    // Sending to a worker that has just died, or failing to fork one, emits `error`. Without a listener it would end
    // the supervisor, and with it all workers.
    worker.on("error", (error) => {
      this.#log.logger.warn(errorFields(error), "a worker cannot be reached");
      // A process that could not be forked emits no `exit`.
      if (pid === undefined) this.#onWorkerExit({ started, listened: false, exit: { reason } });
    });
    if (pid === undefined) return;
    this.#workers.add(worker);
    worker.once("exit", (code, signal) => {
      this.#workers.delete(worker);
      this.#onWorkerExit({ started, listened: this.#listening.delete(worker), exit: { pid, code, signal, reason } });
    });
  }

  #onWorkerExit({ started, listened, exit }: { started: number; listened: boolean; exit: WorkerExit }): void {
    if (this.#closing) return;
    if (this.#start && !listened && (exit.reason !== undefined || ++this.#exitsAtStart > MAX_EXITS_AT_START)) {
      this.#closing = true;
      const how = exit.signal ?? `exit code ${exit.code}`;
      this.#start.reject(new WorkersFailed(exit.reason ?? `workers end before they listen (${how})`));
      return;
    }
    const { pid, ...how } = exit;
    this.#log.logger.error({ worker_pid: pid, ...how }, "a worker ended; starting another");
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
    announce(this.#log, { url, metricsUrl, workers, generatedTokens: [] });
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
