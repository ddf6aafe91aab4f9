import type { Fate } from "./call.ts";
import type { Allowances, Violation } from "./violation.ts";

/** A value that was to be written, in some instant from its start to its end unless it was not written. No two are alike. */
export interface Write {
  readonly value: string;
  readonly start: number;
  readonly end: number;
  readonly fate: Fate;
}

/** A value that was read, in some instant from its start to its end. */
export interface Read {
  readonly value: string;
  readonly start: number;
  readonly end: number;
  readonly isFinal: boolean;
}

/**
 * Whether there is an order of all writes and reads of one value, each in an instant between its start and its end, in
 * which every read gives what was written last.
 *
 * @param what the value is, for the reader
 */
export function checkRegister(
  what: string,
  writes: readonly Write[],
  reads: readonly Read[],
  allow: Allowances,
): Violation[] {
  const written = new Map(writes.map((write) => [write.value, write]));
  const violations: Violation[] = [];
  const known: Read[] = [];
  for (const read of reads) {
    const write = written.get(read.value);
    const fault = write ? sourceFault(write, read) : "from nowhere";
    if (fault) violations.push({ kind: fault, text: `${what}: ${read.value} was read${at(read)}` });
    else known.push({ ...read, start: read.start - (read.isFinal ? 0 : allow.staleMs) });
  }
  const acknowledged = writes.filter(({ fate }) => fate === "made");
  for (const read of known) {
    const { end } = written.get(read.value) as Write;
    const later = acknowledged.find((write) => write.start > end && write.end < read.start);
    if (later) {
      const text = `${what}: ${read.value} was read${at(read)}, though ${later.value} was acknowledged at ${ms(later.end)} and began at ${ms(later.start)}, when the other was over`;
      violations.push({ kind: "acknowledged is lost", text });
    }
  }
  // What is more than one read can tell: several that contradict each other.
  if (violations.length > 0) return violations;
  const seen = new Set(known.map(({ value }) => value));
  const ordered = allow.mayForget
    ? acknowledged
    : writes.filter(({ fate, value }) => fate === "made" || seen.has(value));
  return zoneFaults(what, ordered, known);
}

function sourceFault(write: Write, read: Read): "not made was made" | "from nowhere" | undefined {
  if (write.fate === "not made") return "not made was made";
  return write.start > read.end ? "from nowhere" : undefined;
}

/** From the first instant at which a value was surely there, or had been, to the last; or, in one that is `free`, the reverse. */
interface Zone {
  readonly value: string;
  readonly low: number;
  readonly high: number;
  /** Whether all of its writes and reads may have been at any instant of it. */
  readonly free: boolean;
}

/**
 * Gibbons and Korach, "Testing shared memories": where no two writes are alike, there is an order if no two zones that
 * are not free overlap, and none that is free lies within one that is not.
 */
function zoneFaults(what: string, writes: readonly Write[], reads: readonly Read[]): Violation[] {
  const zones = writes.map(({ value, start, end }): Zone => {
    const of = reads.filter((read) => read.value === value);
    const firstEnd = Math.min(end, ...of.map((read) => read.end));
    const lastStart = Math.max(start, ...of.map((read) => read.start));
    return {
      value,
      low: Math.min(firstEnd, lastStart),
      high: Math.max(firstEnd, lastStart),
      free: lastStart <= firstEnd,
    };
  });
  const taken = zones.filter(({ free }) => !free).sort((a, b) => a.low - b.low);
  const violations: Violation[] = [];
  const report = (one: Zone, other: Zone) => {
    const text = `${what}: ${one.value} (${span(one)}) and ${other.value} (${span(other)}) were there at once`;
    violations.push({ kind: "no order", text });
  };
  for (const [i, zone] of taken.entries()) {
    const before = taken.slice(0, i).find(({ high }) => high > zone.low);
    if (before) report(before, zone);
    for (const other of zones) {
      if (other.free && zone.low < other.low && other.high < zone.high) report(zone, other);
    }
  }
  return violations;
}

function at({ start, end }: Read): string {
  return ` at ${ms(start)} to ${ms(end)}`;
}

function span({ low, high, free }: Zone): string {
  return `${free ? "at some time " : ""}${ms(low)} to ${ms(high)}`;
}

function ms(time: number): string {
  return `${time.toFixed(1)} ms`;
}
