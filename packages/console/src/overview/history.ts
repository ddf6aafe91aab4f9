import { type Duration, timestampMs } from "@bufbuild/protobuf/wkt";
import type { GetMetricsHistoryResponse, MetricsSample } from "../../../../gen/usergroup/admin/v1/metrics_pb.ts";
import { exactMs } from "../../../operator/src/times.ts";

/** The length of a sample, in seconds. */
export const SAMPLE_SECONDS = 10;
/** The maximum number of chart lines that `linesByName` creates. */
const MAX_SERIES = 6;

/** The metrics of the last hour: the samples, and the numbers of calls by method and by environment. */
export interface Hour extends Pick<GetMetricsHistoryResponse, "instance" | "samples" | "methods" | "environments"> {
  /** Whether the responses came from different processes of the service. Each process returns only its own samples. */
  readonly isOther: boolean;
}

export interface Line {
  readonly name: string;
  /** The value of each sample. Null if a sample has no value. */
  readonly values: readonly (number | null)[];
}

/** Returns the end of a sample, in milliseconds since 1970. */
export function endOf({ endTime }: MetricsSample): number {
  return endTime ? timestampMs(endTime) : 0;
}

/** Creates a line of rates per second from the counts of the samples. */
export function rateLine(
  name: string,
  samples: readonly MetricsSample[],
  countOf: (sample: MetricsSample) => number,
): Line {
  return { name, values: samples.map((sample) => countOf(sample) / SAMPLE_SECONDS) };
}

/** Creates a line of durations in milliseconds. */
export function durationLine(
  name: string,
  samples: readonly MetricsSample[],
  durationOf: (sample: MetricsSample) => Duration | undefined,
): Line {
  return { name, values: samples.map((sample) => msOf(durationOf(sample))) };
}

/** Returns a duration in milliseconds, or null if the duration is unset. */
export function msOf(duration: Duration | undefined): number | null {
  return duration ? exactMs(duration) : null;
}

/**
 * Creates a chart line for each name, such as an error reason. The line contains the rates per second of this name. If
 * there are more than `MAX_SERIES` names, the last line is the sum of the rarest names.
 */
export function linesByName(
  samples: readonly MetricsSample[],
  countsOf: (sample: MetricsSample) => { readonly [name: string]: number } | undefined,
): Line[] {
  const totals = new Map<string, number>();
  for (const sample of samples)
    for (const [name, count] of Object.entries(countsOf(sample) ?? {}))
      totals.set(name, (totals.get(name) ?? 0) + count);
  const names = [...totals].sort(([a, x], [b, y]) => y - x || (a < b ? -1 : 1)).map(([name]) => name);
  const isOver = names.length > MAX_SERIES;
  const shown = isOver ? names.slice(0, MAX_SERIES - 1) : names;
  const lines = shown.map((name) => rateLine(name, samples, (sample) => countsOf(sample)?.[name] ?? 0));
  if (!isOver) return lines;
  const rest = names.slice(MAX_SERIES - 1);
  const restOf = (sample: MetricsSample) => rest.reduce((sum, name) => sum + (countsOf(sample)?.[name] ?? 0), 0);
  return [...lines, rateLine(`${rest.length} others`, samples, restOf)];
}

/** Summarizes the samples of the last minute. */
export function lastMinute(samples: readonly MetricsSample[]) {
  const latest = samples.slice(-60 / SAMPLE_SECONDS);
  const calls = latest.reduce((sum, sample) => sum + sample.calls, 0);
  const failed = latest.reduce((sum, { errors }) => sum + sumOf(errors), 0);
  return {
    callsPerSecond: calls / Math.max(1, latest.length * SAMPLE_SECONDS),
    failedShare: calls === 0 ? 0 : failed / calls,
    /** The maximum p99 latency in the last minute, in milliseconds. Null if no sample has a p99 latency. */
    p99: latest.reduce<number | null>((most, { p99 }) => {
      const ms = msOf(p99);
      return ms === null ? most : Math.max(most ?? 0, ms);
    }, null),
    service: samples.at(-1)?.service,
  };
}

export function sumOf(counts: { readonly [name: string]: number }): number {
  return Object.values(counts).reduce((sum, count) => sum + count, 0);
}

/** A row of the table below a chart. */
export interface Minute {
  /** The end of the minute, in milliseconds since 1970. */
  readonly end: number;
  /** The mean of each line in this minute. Null if the line has no value in this minute. */
  readonly means: readonly (number | null)[];
}

/** Returns a row for each minute, the latest first. @param ends the end of each sample, in ms since 1970 */
export function minutesOf(ends: readonly number[], lines: readonly Line[]): Minute[] {
  const minutes = new Map<number, number[]>();
  for (const [i, end] of ends.entries()) {
    const minute = Math.ceil(end / 60_000) * 60_000;
    minutes.set(minute, [...(minutes.get(minute) ?? []), i]);
  }
  return [...minutes]
    .map(([end, indexes]) => ({
      end,
      means: lines.map(({ values }) => {
        const present = indexes.map((i) => values[i]).filter((value) => typeof value === "number");
        return present.length === 0 ? null : present.reduce((sum, value) => sum + value, 0) / present.length;
      }),
    }))
    .reverse();
}

/** Formats a number for a label: `1,234`, `12.3` or `0.05`. */
export function numberText(value: number): string {
  const digits = value >= 100 ? 0 : value >= 10 ? 1 : 2;
  return value.toLocaleString("en", { maximumFractionDigits: digits });
}

/** Formats a duration in milliseconds: `850 µs`, `4.2 ms` or `1.5 s`. */
export function msText(ms: number): string {
  if (ms >= 1000) return `${numberText(ms / 1000)} s`;
  return ms > 0 && ms < 1 ? `${numberText(ms * 1000)} µs` : `${numberText(ms)} ms`;
}

/** Formats a value with `textOf`. Returns a dash if the value is missing. */
export function valueText(value: number | null | undefined, textOf: (value: number) => string): string {
  return typeof value === "number" ? textOf(value) : "–";
}

/** Formats a time in milliseconds since 1970 as a time of day in UTC, such as `13:05:09`. */
export function clockText(ms: number): string {
  return new Date(ms).toISOString().slice(11, 19);
}
