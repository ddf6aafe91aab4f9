/** Duration of `loopMs` on an idle core of the reference machine, in milliseconds. */
const QUIET_MS = 30;
const TIMES = 7;

const TEXT = JSON.stringify(Array.from({ length: 2000 }, (_, id) => ({ id, name: `n${id}`, tags: ["a", `${id}`] })));

/** Maximum factor for the limits. The tests of attacks fail on machines that are even slower. */
const MOST = 4;

/**
 * Returns a factor from 1 to 4: the CPU time of some work on this machine, divided by its CPU time on the idle
 * reference machine. Other load on this machine also increases the factor.
 */
export function slowness(): number {
  const times = Array.from({ length: TIMES }, loopMs).sort((a, b) => a - b);
  return Math.min(MOST, Math.max(1, (times[TIMES >> 1] as number) / QUIET_MS));
}

/** Measures the CPU time of work that is typical of servers (parsing, objects, strings), in milliseconds. */
function loopMs(): number {
  const begun = process.cpuUsage();
  for (let i = 0; i < 20; i++) {
    const parsed = JSON.parse(TEXT) as { id: number }[];
    JSON.stringify(parsed.map((one) => ({ ...one, twice: one.id * 2 })));
  }
  const { user, system } = process.cpuUsage(begun);
  return (user + system) / 1000;
}
