import { readdirSync, readFileSync } from "node:fs";

/** The core that every server is pinned to. */
export const SERVER_CORE = "0";

/** The core that everything else is pinned to: Redis, the load generator and the benchmark itself. */
export const LOAD_CORE = "1";

export const CORES = [SERVER_CORE, LOAD_CORE] as const;

/** What the kernel has counted of a core, in ticks. */
interface CoreTimes {
  readonly idle: number;
  readonly total: number;
}

/** What the kernel has counted of both cores so far. */
export type Times = { readonly [core in (typeof CORES)[number]]: CoreTimes };

export function coreTimes(): Times {
  const stat = readFileSync("/proc/stat", "utf8").split("\n");
  const timesOf = (core: string): CoreTimes => {
    const line = stat.find((text) => text.startsWith(`cpu${core} `)) ?? "";
    const times = line.split(/\s+/).slice(1, 9).map(Number);
    const [idle = 0, waiting = 0] = [times[3], times[4]];
    return { idle: idle + waiting, total: times.reduce((sum, time) => sum + time, 0) };
  };
  return { [SERVER_CORE]: timesOf(SERVER_CORE), [LOAD_CORE]: timesOf(LOAD_CORE) };
}

/** Which share of a core was used between two counts, from 0 to 1; what other guests of the host took counts. */
export function busyShare(core: keyof Times, from: Times, to: Times): number {
  return 1 - (to[core].idle - from[core].idle) / (to[core].total - from[core].total);
}

/** Processor time of all threads of a process, user and system, in seconds. */
export function cpuSeconds(pid: number): number {
  const tasks = `/proc/${pid}/task`;
  const nanoseconds = readdirSync(tasks).map(
    (thread) => readFileSync(`${tasks}/${thread}/schedstat`, "utf8").split(" ")[0],
  );
  return nanoseconds.reduce((sum, each) => sum + Number(each), 0) / 1e9;
}
