/** Result of `loopMs` on an idle core of the reference machine, in milliseconds. */
const QUIET_MS = 30;
const TIMES = 7;

const TEXT = JSON.stringify(Array.from({ length: 2000 }, (_, id) => ({ id, name: `n${id}`, tags: ["a", `${id}`] })));

/** Maximum of `slowness`. If a machine is slower by more than this factor, the tests of attacks may fail. */
const MOST = 4;

/**
 * Returns the factor by which this machine is slower than the idle reference machine, from 1 to 4. Other load on this
 * machine also increases the factor.
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
