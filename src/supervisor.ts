import cluster, { type Worker } from "node:cluster";
import { once } from "node:events";
import { AggregatorRegistry } from "prom-client";
import type { Config } from "./config/config.ts";
import { errorFields, type Logger } from "./observability/log.ts";
import type { MetricsMessage } from "./observability/worker-metrics.ts";
import { urlOf } from "./transport/port.ts";

/** A worker that ends sooner than this after its start is not restarted at once, in milliseconds. */
const RESTART_DELAY_MS = 1000;

/** How much longer than its own timeout a worker may take to end, in milliseconds. */
const EXIT_SLACK_MS = 2000;

/** Runs the workers of one port: starts them again when they crash, and drains them at the end. */
export class Supervisor {
  readonly #config: Config;
  readonly #logger: Logger;
  readonly #registry = new AggregatorRegistry();
  readonly #timers = new Set<ReturnType<typeof setTimeout>>();
  #listening = false;
  #closing = false;

  constructor(config: Config, logger: Logger) {
    this.#config = config;
    this.#logger = logger;
  }

  /**
   * Starts the workers and resolves when all of them listen.
   *
   * @throws when a worker ends before it listens
   */
  async start(): Promise<void> {
    const workers = Array.from({ length: this.#config.workers }, () => this.#fork());
    const addresses = await Promise.all(
      workers.map(async (worker) => {
        const ended = once(worker, "exit").then(() => {
          throw new Error("a worker could not start");
        });
        const [address] = (await Promise.race([once(worker, "listening"), ended])) as [
          { address: string; port: number },
        ];
        ended.catch(() => {});
        return address;
      }),
    );
    this.#listening = true;
    const { host: address, tls } = this.#config;
    const url = urlOf({ address, port: addresses[0]?.port ?? 0 }, tls !== undefined);
    this.#logger.info({ url, workers: workers.length }, "listening");
  }

  /** Has every worker finish what is under way and end; ends those that do not in time. */
  async close(): Promise<void> {
    this.#closing = true;
    for (const timer of this.#timers) clearTimeout(timer);
    // One that has ended is listed until its channel is closed, too, and would be waited for in vain.
    const workers = Object.values(cluster.workers ?? {}).filter((worker) => worker && !worker.isDead()) as Worker[];
    const ended = Promise.all(workers.map((worker) => once(worker, "exit")));
    for (const worker of workers) worker.process.kill("SIGTERM");
    const timer = setTimeout(() => {
      for (const worker of workers) worker.process.kill("SIGKILL");
    }, this.#config.shutdownTimeoutMs + EXIT_SLACK_MS);
    await ended;
    clearTimeout(timer);
    this.#logger.info("closed");
  }

  #fork(): Worker {
    const worker = cluster.fork();
    // A message to a worker that has just died, or a process that cannot be made: unheard, it would end them all.
    worker.on("error", (error) => this.#logger.warn(errorFields(error), "a worker cannot be reached"));
    const started = performance.now();
    worker.on("message", (message: MetricsMessage) => {
      if (message?.kind === "metrics") void this.#sendMetrics(worker, message.id);
    });
    worker.once("exit", (code, signal) => {
      if (!this.#listening || this.#closing) return;
      this.#logger.error({ pid: worker.process.pid, code, signal }, "a worker ended; starting another");
      const delay = performance.now() - started < RESTART_DELAY_MS ? RESTART_DELAY_MS : 0;
      const timer = setTimeout(() => {
        this.#timers.delete(timer);
        this.#fork();
      }, delay);
      this.#timers.add(timer);
    });
    return worker;
  }

  async #sendMetrics(worker: Worker, id: number): Promise<void> {
    const text = await this.#registry.clusterMetrics().catch((error: unknown) => {
      this.#logger.warn(errorFields(error), "the metrics of all workers could not be collected");
      return undefined;
    });
    if (worker.isConnected()) worker.send({ kind: "metrics", id, text } satisfies MetricsMessage);
  }
}
