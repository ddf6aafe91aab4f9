/** What the loop takes on an idle core of the machine that the bounds were set on, in milliseconds. */
const QUIET_MS = 30;
const TIMES = 7;

const TEXT = JSON.stringify(Array.from({ length: 2000 }, (_, id) => ({ id, name: `n${id}`, tags: ["a", `${id}`] })));

/** Bounds are widened by no more, or they would hold nothing: on a machine that is slower still, the attack fails. */
const MOST = 4;

/**
 * How many times as much CPU time the same work takes here and now: on a slower machine, or one whose cores and caches
 * others use as well. From 1 to 4.
 */
export function slowness(): number {
  const times = Array.from({ length: TIMES }, loopMs).sort((a, b) => a - b);
  return Math.min(MOST, Math.max(1, (times[TIMES >> 1] as number) / QUIET_MS));
}

/** The CPU time of some work as servers do it: parsing, objects, texts. */
function loopMs(): number {
  const begun = process.cpuUsage();
  for (let i = 0; i < 20; i++) {
    const parsed = JSON.parse(TEXT) as { id: number }[];
    JSON.stringify(parsed.map((one) => ({ ...one, twice: one.id * 2 })));
  }
  const { user, system } = process.cpuUsage(begun);
  return (user + system) / 1000;
}
