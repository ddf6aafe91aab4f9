import { readdirSync, readFileSync } from "node:fs";

export const SERVER_CORE = "0";

/** The core that runs everything else: Redis, the load generator and the benchmark itself. */
export const LOAD_CORE = "1";

interface CoreTimes {
  readonly idle: number;
  readonly total: number;
}

export function serverCoreTimes(): CoreTimes {
  const [, text = ""] = new RegExp(`^cpu${SERVER_CORE} (.*)$`, "m").exec(readFileSync("/proc/stat", "utf8")) ?? [];
  const times = text.split(" ").slice(0, 8).map(Number);
  const [idle = 0, waiting = 0] = [times[3], times[4]];
  return { idle: idle + waiting, total: times.reduce((sum, time) => sum + time, 0) };
}

/**
 * Returns the share of time for which a core was busy between two measurements, from 0 to 1. On a virtual machine, the
 * share includes the time for which the core ran other virtual machines.
 */
export function busyShare(from: CoreTimes, to: CoreTimes): number {
  return 1 - (to.idle - from.idle) / (to.total - from.total);
}

/** Returns the CPU time of all threads of a process, user and system, in seconds. */
export function cpuSeconds(pid: number): number {
  const tasks = `/proc/${pid}/task`;
  const nanoseconds = readdirSync(tasks).map(
    (thread) => readFileSync(`${tasks}/${thread}/schedstat`, "utf8").split(" ")[0],
  );
  return nanoseconds.reduce((sum, each) => sum + Number(each), 0) / 1e9;
}
