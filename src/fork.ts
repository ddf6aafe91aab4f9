import { type ChildProcess, spawn } from "node:child_process";
import cluster from "node:cluster";
import { once } from "node:events";
import { type AddressInfo, createServer, type ListenOptions } from "node:net";
import type { Config } from "./config/config.ts";
import { requireListenPermission, requireRunPermission, workerFlags } from "./permissions.ts";
import { type WorkerStart, workerArgument } from "./worker.ts";

/** How worker processes are started that share the ports of the settings. */
export interface Forks {
  /** Starts a worker process. Failures are its `error` event; then it has no pid. */
  fork(number: number): ChildProcess;
  /** Leaves the ports to the workers. Call it once all of them listen, or will not, and before it is told of. */
  release(): Promise<unknown>;
}

type PortSettings = Pick<Config, "host" | "port" | "metricsPort" | "files">;

/**
 * Makes ready to start workers, each of which runs the program of this process: on Node by its cluster, which shares
 * ports among them; on Deno as processes that listen on one port each by itself, which the system lets them share.
 *
 * @throws on Deno: an error of the system call `listen`, and RunNotAllowed
 */
export async function openForks(settings: PortSettings): Promise<Forks> {
  return "Deno" in globalThis ? openDenoForks(settings) : { fork: forkOnNode, release: async () => {} };
}

function forkOnNode(number: number): ChildProcess {
  cluster.setupPrimary({ args: [workerArgument({ number })] });
  const { process: child } = cluster.fork().on("error", () => {
    // It is an event of the child process as well.
  });
  return child;
}

async function openDenoForks({ host, port, metricsPort, files }: PortSettings): Promise<Forks> {
  await requireRunPermission();
  const flags = await workerFlags(files);
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

/** A port for workers to listen on. */
interface ClaimedPort {
  readonly port: number;
  /** Until then it may be this process that is given a connection, and resets it. */
  readonly release: () => Promise<unknown>;
}

/**
 * Requires that nobody else listens on a port: the system would let workers share the port of another service, too. A
 * free port that the system picks is kept until workers listen on it, which has to be allowed from the first listener.
 */
async function claimPort(host: string, port: number): Promise<ClaimedPort> {
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
