import { type Call, isDone, sortedBy } from "./call.ts";

export interface Figures {
  readonly calls: number;
  readonly seconds: number;
  readonly errors: ReadonlyMap<string, number>;
  /** Longest time in which no call to any group of the same shard succeeded, in milliseconds. */
  readonly outageMs: number;
  /**
   * Longest time in which no change of any group of the same shard was acknowledged, in milliseconds. Counts only
   * creations, updates and rotations.
   */
  readonly changeOutageMs: number;
}

export function figuresOf(calls: readonly Call[], shardOf: (group: string) => string): Figures {
  const load = calls.filter(({ isFinal }) => !isFinal);
  const begin = Math.min(...load.map(({ start }) => start));
  const end = Math.max(...load.map((call) => call.end));
  const shards = [...sortedBy(load, ({ group }) => shardOf(group)).values()];
  const longest = (isCounted: (call: Call) => boolean) =>
    Math.max(
      0,
      ...shards.map((own) =>
        longestGap(
          begin,
          end,
          own.filter((call) => isDone(call) && isCounted(call)),
        ),
      ),
    );
  const errors = new Map<string, number>();
  for (const call of load) {
    if (isDone(call)) continue;
    const { answer } = call;
    const name = [answer.code, answer.reason, answer.outcome].filter((part) => part !== undefined).join(" ");
    errors.set(name, (errors.get(name) ?? 0) + 1);
  }
  return {
    calls: load.length,
    seconds: load.length === 0 ? 0 : (end - begin) / 1000,
    errors,
    outageMs: longest(() => true),
    changeOutageMs: longest(
      ({ method, answer }) => method === "update" || method === "rotate" || Boolean(answer.created),
    ),
  };
}

function longestGap(begin: number, end: number, answered: readonly Call[]): number {
  let longest = 0;
  let last = begin;
  for (const time of [...answered.map((call) => call.end).sort((a, b) => a - b), end]) {
    longest = Math.max(longest, time - last);
    last = time;
  }
  return longest;
}

export function figuresText({ calls, seconds, errors, outageMs, changeOutageMs }: Figures): string[] {
  const failed = [...errors].sort(([, a], [, b]) => b - a).map(([name, count]) => `${count} ${name}`);
  return [
    `${calls} calls in ${inSeconds(seconds * 1000)}; longest outage ${inSeconds(outageMs)}, of changes ${inSeconds(changeOutageMs)}`,
    `errors: ${failed.join(", ") || "none"}`,
  ];
}

function inSeconds(ms: number): string {
  return `${(ms / 1000).toFixed(2)} s`;
}
