import { execFileSync } from "node:child_process";
import { cpus, release, totalmem } from "node:os";
import { onPath } from "@user-group-service/testing/on-path";
import { LOAD_CORE } from "./cores.ts";
import { firstLine, type RuntimeInfo } from "./runtimes.ts";

/** Maps each program that the benchmarks need to the Debian package that contains the program. */
const TOOLS = { h2load: "nghttp2-client", taskset: "util-linux", "redis-server": "redis-server" } as const;

/**
 * Pins this process to the load core. The processes that this process starts later inherit the core. Servers do not run
 * on this core, because `startServer` pins them to another core.
 *
 * @throws if a program is missing, or the machine has only one core
 */
export function prepareMachine(): void {
  const missing = Object.entries(TOOLS).filter(([tool]) => onPath(tool) === undefined);
  if (missing.length > 0) {
    const names = missing.map(([tool]) => tool).join(", ");
    const packages = missing.map(([, name]) => name).join(" ");
    throw new Error(`not found: ${names}; on Debian: apt-get install ${packages}`);
  }
  if (cpus().length < 2) throw new Error("two cores are needed: one for the server, one for Redis and the load");
  // After a signal, call `exit`, because the handlers of `exit` stop the processes that this process started.
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => process.exit(130));
  pinTo(LOAD_CORE);
}

/** Pins this process, and all processes that it starts from now on, to one core. */
export function pinTo(core: string): void {
  execFileSync("taskset", ["-a", "-p", "-c", core, String(process.pid)], { stdio: "ignore" });
}

export function describeMachine(runtimes: readonly RuntimeInfo[]): string {
  const [cpu] = cpus();
  return [
    new Date().toISOString().slice(0, 10),
    `${cpu?.model ?? "unknown"}, ${cpus().length} cores, ${Math.round(totalmem() / 2 ** 30)} GiB`,
    `Linux ${release()}`,
    ...runtimes.map(({ version }) => version),
    `Redis ${/v=(\S+)/.exec(firstLine("redis-server", "--version"))?.[1] ?? "unknown"}`,
    firstLine("h2load", "--version"),
  ].join("; ");
}
