import { type ChildProcess, spawn } from "node:child_process";
import cluster from "node:cluster";
import { once } from "node:events";
import { type AddressInfo, createServer, type ListenOptions } from "node:net";
import type { Config } from "../config/config.ts";
import { sharedResult } from "../domain/shared-result.ts";
import { METRICS_KEPT_MS, WorkerMetrics } from "../observability/exposition.ts";
import { History } from "../observability/history.ts";
import { errorFields, type Log } from "../observability/log.ts";
import { CONSOLE_FILES } from "../rest/pages/console.ts";
import { DOCS_FILES } from "../rest/pages/docs.ts";
import { requireListenPermission, requireRunPermission, workerFlags } from "./permissions.ts";
import { announce, type Listening } from "./start-messages.ts";
import { answerData, type Notice, requestData, type WorkerStart, WorkersFailed, workerArgument } from "./worker.ts";

/**
 * The delay before the supervisor replaces a worker that has exited, in milliseconds. If the worker ran for at least
 * this time, the supervisor replaces the worker immediately.
 */
const RESTART_DELAY_MS = 1000;

/** The supervisor kills a worker that still runs this many milliseconds after SHUTDOWN_DELAY and SHUTDOWN_TIMEOUT. */
const EXIT_SLACK_MS = 2000;

const METRICS_TIMEOUT_MS = 5000;

/**
 * The number of workers that may exit during the start and report no reason. If one more worker exits and reports no
 * reason, the start fails.
 */
const MAX_EXITS_AT_START = 5;

interface WorkerExit {
  readonly pid?: number | undefined;
  readonly code?: number | null;
  readonly signal?: string | null;
  readonly reason: string | undefined;
}

type SupervisorSettings = Pick<Config, "workers" | "shutdownTimeoutMs" | "shutdownDelayMs">;

/** Runs the workers that share a port. Replaces crashed workers, and drains all workers at shutdown. */
export class Supervisor {
  readonly #config: SupervisorSettings;
  readonly #forks: Forks;
  readonly #log: Log;
  /** The running workers. A waiting worker already listens, but still waits for Redis. */
  readonly #workers = new Map<ChildProcess, "starting" | "waiting" | "listening">();
  #start: { readonly resolve: (listening: Listening) => void; readonly reject: (error: Error) => void } | undefined;
  readonly #metrics = new WorkerMetrics();
  /** Returns the combined metrics of all workers. Requests from several workers share one result for a short time. */
  readonly #allMetrics = sharedResult(METRICS_KEPT_MS, () => this.#collectMetrics());
  readonly #history = new History();
  #forked = 0;
  #exitsAtStart = 0;
  #closing = false;

  constructor(config: SupervisorSettings, { forks, log }: { forks: Forks; log: Log }) {
    this.#config = config;
    this.#forks = forks;
    this.#log = log;
  }

  /**
   * Starts the workers, and resolves when all workers listen.
   *
   * @throws WorkersFailed if a worker reports why it cannot start, or if too many workers exit and report no reason.
   *   When this method rejects, all workers have exited
   */
  async start(): Promise<void> {
    const started = new Promise<Listening>((resolve, reject) => {
      this.#start = { resolve, reject };
    });
    for (let i = 0; i < this.#config.workers; i++) this.#fork();
    try {
      const listening = await started.finally(() => this.#forks.release());
      announce(this.#log, listening);
    } catch (error) {
      await this.#end();
      throw error;
    }
  }

  /** Stops all workers. Each worker finishes its calls in flight. Kills a worker that takes too long. */
  async close(): Promise<void> {
    this.#log.logger.info("shutting down");
    await this.#end();
    this.#log.logger.info("closed");
  }

  async #end(): Promise<void> {
    this.#closing = true;
    const workers = [...this.#workers.keys()];
    // Do not use `once` of node:events here. Its promise would reject if a worker emits `error`, for example because
    // its channel is closed.
    const ended = Promise.all(workers.map((worker) => new Promise((resolve) => worker.once("exit", resolve))));
    for (const worker of workers) worker.kill("SIGTERM");
    const { shutdownDelayMs, shutdownTimeoutMs } = this.#config;
    const timer = setTimeout(
      () => {
        for (const worker of workers) worker.kill("SIGKILL");
      },
      shutdownDelayMs + shutdownTimeoutMs + EXIT_SLACK_MS,
    );
    await ended;
    clearTimeout(timer);
  }

  #fork(): void {
    if (this.#closing) return;
    const worker = this.#forks.fork(++this.#forked);
    const { pid } = worker;
    const started = performance.now();
    let reason: string | undefined;
    worker.on("message", (message: Notice | undefined) => {
      if (message?.kind === "listening") this.#onListening(worker, message);
      else if (message?.kind === "waiting") this.#setState(worker, "waiting");
      else if (message?.kind === "failed") reason = message.reason;
      else if (message?.kind === "sample") this.#history.add(message.sample);
    });
    answerData(worker, "all metrics", () => this.#allMetrics());
    answerData(worker, "history", async (query = "") =>
      JSON.stringify(this.#history.read(JSON.parse(query), Date.now())),
    );
    // A worker emits `error` if a message cannot be sent to the worker, or if the fork has failed. Without a listener,
    // `error` would end the supervisor.
    worker.on("error", (error) => {
      this.#log.logger.warn(errorFields(error), "the supervisor cannot reach a worker");
      // If the fork has failed, the worker emits no `exit`. So report the exit here.
      if (pid === undefined) this.#onWorkerExit({ started, listened: false, exit: { reason } });
    });
    if (pid === undefined) return;
    this.#workers.set(worker, "starting");
    worker.once("exit", (code, signal) => {
      const listened = this.#workers.get(worker) === "listening";
      this.#workers.delete(worker);
      this.#metrics.end(worker);
      this.#onWorkerExit({ started, listened, exit: { pid, code, signal, reason } });
    });
  }

  #setState(worker: ChildProcess, state: "waiting" | "listening"): void {
    // A message may arrive after the worker has exited.
    if (this.#workers.has(worker)) this.#workers.set(worker, state);
  }

  #onWorkerExit({ started, listened, exit }: { started: number; listened: boolean; exit: WorkerExit }): void {
    if (this.#closing) return;
    if (this.#start && !listened && (exit.reason !== undefined || ++this.#exitsAtStart > MAX_EXITS_AT_START)) {
      this.#closing = true;
      const how = exit.signal ?? `exit code ${exit.code}`;
      this.#start.reject(new WorkersFailed(exit.reason ?? `workers exit before they listen (${how})`));
      return;
    }
    const { pid, ...how } = exit;
    this.#log.logger.error({ worker_pid: pid, ...how }, "a worker exited; the supervisor starts another worker");
    const delay = performance.now() - started < RESTART_DELAY_MS ? RESTART_DELAY_MS : 0;
    setTimeout(() => this.#fork(), delay);
  }

  #onListening(worker: ChildProcess, { url, metricsUrl }: Notice & { kind: "listening" }): void {
    this.#setState(worker, "listening");
    const { workers } = this.#config;
    const listening = [...this.#workers.values()].filter((state) => state === "listening");
    if (!this.#start || listening.length < workers) return;
    this.#start.resolve({ url, metricsUrl, workers });
    this.#start = undefined;
  }

  async #collectMetrics(): Promise<string | undefined> {
    const workers = [...this.#workers].flatMap(([worker, state]) => (state === "starting" ? [] : [worker]));
    const texts = await Promise.all(workers.map((worker) => requestData(worker, "own metrics", METRICS_TIMEOUT_MS)));
    // Omit each worker that has exited during the requests, because `#metrics.end` has already counted the last metrics
    // of this worker.
    const answered = workers
      .map((worker, i) => ({ worker, text: texts[i] }))
      .filter(({ worker }) => this.#workers.has(worker));
    for (const { worker, text } of answered) if (text !== undefined) this.#metrics.set(worker, text);
    if (answered.every(({ text }) => text !== undefined)) return this.#metrics.expose();
    this.#log.logger.warn("the metrics are incomplete: a worker did not answer");
    return undefined;
  }
}

interface Forks {
  /** Starts a worker process. If the start fails, the process has no pid and emits `error`. */
  fork(number: number): ChildProcess;
  /**
   * Releases the ports that this process keeps for the workers. Until the release, this process resets connections to
   * the ports. Call this method when all workers listen or the start has failed, and before you report the URL.
   */
  release(): Promise<unknown>;
}

type PortSettings = Pick<Config, "host" | "port" | "metricsPort" | "files">;

/**
 * Prepares to start workers. A worker runs the same program as this process. On Node, `node:cluster` shares the ports.
 * On Deno, each worker listens on the same port, and the operating system distributes the connections.
 *
 * @throws on Deno: NotAllowed, or an error of `listen`
 */
export async function openForks(settings: PortSettings): Promise<Forks> {
  return "Deno" in globalThis ? openDenoForks(settings) : { fork: forkOnNode, release: async () => {} };
}

function forkOnNode(number: number): ChildProcess {
  cluster.setupPrimary({ args: [workerArgument({ number })] });
  const { process: child } = cluster.fork().on("error", () => {
    // Ignore this error, because the child process emits the same error, and `Supervisor` handles the error there.
  });
  return child;
}

async function openDenoForks({ host, port, metricsPort, files }: PortSettings): Promise<Forks> {
  await requireRunPermission();
  const flags = await workerFlags([...files.map(({ path }) => path), ...DOCS_FILES, ...CONSOLE_FILES]);
  const main = await claimPort(host, port);
  const metrics = metricsPort === undefined ? undefined : await claimPort(host, metricsPort);
  const ports: WorkerStart["ports"] = { port: main.port, metricsPort: metrics?.port, reusePort: true };
  return {
    fork: (number) => {
      const args = ["run", ...flags, process.argv[1] ?? "", workerArgument({ number, ports })];
      return spawn(process.execPath, args, { stdio: ["inherit", "inherit", "inherit", "ipc"] });
    },
    release: () => Promise.all([main.release(), metrics?.release()]),
  };
}

/**
 * Requires that no other service listens on a port. Otherwise the operating system would let the workers share the port
 * with that service. If `port` is 0, the operating system selects a port. This process then listens on the port until
 * the workers listen, and resets connections to the port. The first listener decides whether other processes can share
 * the port, so this process listens with `reusePort`.
 */
async function claimPort(host: string, port: number) {
  await requireListenPermission(host, port);
  const server = createServer((socket) => socket.destroy());
  // The types of Node 20 do not have `reusePort`.
  server.listen({ host, port, reusePort: port === 0 } as ListenOptions);
  await once(server, "listening");
  const claimed = (server.address() as AddressInfo).port;
  const release = () => once(server.close(), "close");
  if (port === 0) return { port: claimed, release };
  await release();
  return { port, release: async () => {} };
}
