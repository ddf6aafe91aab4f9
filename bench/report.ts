import type { CallKey } from "./calls.ts";
import type { Machine } from "./machine.ts";
import type { Measurement } from "./measure.ts";
import { type Runtime, SERVERS, type ServerSpec } from "./servers.ts";

/** Everything that a run found out. */
export interface Results {
  readonly runtime: Runtime;
  readonly machine: Machine;
  readonly rounds: number;
  /** From the start of the service until it listened, in milliseconds. */
  readonly startMs: readonly number[];
  readonly measurements: readonly Measurement[];
}

const CALLS: readonly (readonly [CallKey, string])[] = [
  ["grpcGet", "gRPC Get"],
  ["connectGet", "Connect JSON Get, HTTP/1.1"],
  ["restGet", "REST GET, HTTP/1.1"],
  ["create", "create, Connect JSON, HTTP/1.1"],
  ["update", "update, gRPC"],
  ["rotate", "rotate by id, gRPC"],
  ["resolve", "resolve, gRPC"],
];

type Key = ServerSpec["key"];

/** The middle one of some figures. */
export function median(figures: readonly number[]): number {
  const sorted = [...figures].sort((a, b) => a - b);
  const half = sorted.length / 2;
  if (sorted.length === 0) return Number.NaN;
  if (sorted.length % 2 === 1) return sorted[Math.floor(half)] as number;
  return ((sorted[half - 1] as number) + (sorted[half] as number)) / 2;
}

/** The results in Markdown. */
export function report(results: Results): string {
  return [describe(results), table(results), targets(results)].join("\n\n");
}

/** A page with the part for a runtime replaced. @throws when the page has no place for it */
export function insertReport(page: string, runtime: Runtime, text: string): string {
  const [begin, end] = [`<!-- ${runtime} begins -->`, `<!-- ${runtime} ends -->`];
  const [from, to] = [page.indexOf(begin), page.indexOf(end)];
  if (from < 0 || to < from) throw new Error(`the page has no place between ${begin} and ${end}`);
  return `${page.slice(0, from + begin.length)}\n\n${text}\n\n${page.slice(to)}`;
}

function describe({ machine, rounds, measurements }: Results): string {
  const { cpu, cores, memoryGiB, kernel, runtime, redis, h2load, date } = machine;
  return (
    `${date}; ${cpu}, ${cores} cores, ${memoryGiB} GiB; Linux ${kernel}; ${runtime}; Redis ${redis}; ${h2load}. ` +
    `Medians of ${rounds} ${rounds === 1 ? "round" : "rounds"}, smallest and largest in brackets. ` +
    `Other processes took ${Math.round(100 * median(measurements.map(({ othersBusy }) => othersBusy)))} % of the ` +
    `servers' core, at most ${Math.round(100 * Math.max(...measurements.map(({ othersBusy }) => othersBusy)))} %.`
  );
}

function table({ measurements }: Results): string {
  const lines = [
    "| call | server | calls/s | × adapter | × peer | × floor | p50 ms | p99 ms | CPU µs/call | MiB |",
    "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|",
  ];
  for (const [call, title] of CALLS) {
    for (const { key, title: server } of [...SERVERS].reverse()) {
      const rows = of(measurements, key, call);
      if (rows.length === 0) continue;
      const rates = rows.map(({ callsPerSecond }) => callsPerSecond);
      // Where the server did not use its core up, something else was the limit.
      const bound = median(rows.map(({ serverBusy }) => serverBusy)) < 0.9 ? " ≥" : "";
      const ratios = RIVALS.map((rival) => ratioText(measurements, key, call, rival));
      const figure = (pick: (row: Measurement) => number, digits: number) => median(rows.map(pick)).toFixed(digits);
      lines.push(
        `| ${title} | ${server} |${bound} ${spread(rates)} | ${ratios.join(" | ")} | ` +
          `${figure((row) => row.paced.p50, 2)} | ${figure((row) => row.paced.p99, 2)} | ` +
          `${figure((row) => row.cpuMicros, 1)} | ${figure((row) => row.peakMiB, 0)} |`,
      );
    }
  }
  return lines.join("\n");
}

const RIVALS = ["adapter", "peer", "floor"] as const;
type Rival = (typeof RIVALS)[number];

/** The server that stands for a rival. The adapter knows no REST: its Connect JSON stands for that. */
function rivalOf(rival: Rival, call: CallKey): readonly [Key, CallKey] {
  if (rival === "adapter") return ["adapter", call === "restGet" ? "connectGet" : call];
  if (rival === "peer") return [call === "grpcGet" ? "grpcJs" : "fastify", call];
  return [call === "grpcGet" ? "bareHttp2" : "bareHttp", call];
}

function ratio(measurements: readonly Measurement[], server: Key, call: CallKey, rival: Rival): number {
  return rate(measurements, server, call) / rate(measurements, ...rivalOf(rival, call));
}

function ratioText(measurements: readonly Measurement[], server: Key, call: CallKey, rival: Rival): string {
  const value = ratio(measurements, server, call, rival);
  return Number.isNaN(value) ? "" : value.toFixed(2);
}

function targets({ measurements, startMs }: Results): string {
  const lines = ["| target | wanted | measured | |", "|---|--:|--:|---|"];
  const add = (target: string, wanted: string, measured: number, reached: boolean, digits = 2) => {
    if (Number.isNaN(measured)) return;
    lines.push(`| ${target} | ${wanted} | ${measured.toFixed(digits)} | ${reached ? "reached" : "**not reached**"} |`);
  };
  const wanted: readonly (readonly [CallKey, Rival, number, string])[] = [
    ["grpcGet", "adapter", 5, "gRPC Get against connectNodeAdapter"],
    ["grpcGet", "peer", 1, "gRPC Get against grpc-js"],
    ["grpcGet", "peer", 1.2, "gRPC Get against grpc-js, the stretch"],
    ["grpcGet", "floor", 0.8, "gRPC Get against the floor"],
    ["connectGet", "adapter", 3, "Connect JSON Get against connectNodeAdapter"],
    ["connectGet", "peer", 0.9, "Connect JSON Get against Fastify"],
    ["connectGet", "peer", 1, "Connect JSON Get against Fastify, the stretch"],
    ["connectGet", "floor", 0.8, "Connect JSON Get against the floor"],
    ["restGet", "adapter", 3, "REST GET against connectNodeAdapter's Connect JSON Get"],
    ["restGet", "peer", 0.9, "REST GET against Fastify"],
    ["restGet", "peer", 1, "REST GET against Fastify, the stretch"],
    ["restGet", "floor", 0.8, "REST GET against the floor"],
  ];
  for (const [call, rival, least, title] of wanted) {
    const measured = ratio(measurements, "service", call, rival);
    add(title, `≥ ${least} ×`, measured, measured >= least);
  }
  for (const [call, title] of CALLS) {
    const [peer] = rivalOf("peer", call);
    const theirs = median(of(measurements, peer, call).map(({ paced }) => paced.p99));
    const ours = median(
      of(measurements, "service", call).flatMap(({ atPeersRate }) => (atPeersRate ? [atPeersRate.p99] : [])),
    );
    const rateText = Math.round(rate(measurements, peer, call) / 2).toLocaleString("en");
    add(`p99 of ${title} at ${rateText} calls/s, ms`, `≤ ${theirs.toFixed(2)}`, ours, ours <= theirs);
  }
  const start = median(startMs);
  add("start to listening, ms", "< 300", start, start < 300, 0);
  const memory = Math.max(...measurements.filter(({ server }) => server === "service").map(({ peakMiB }) => peakMiB));
  add("resident memory under load, MiB", "< 150", memory, memory < 150, 0);
  return lines.join("\n");
}

function of(measurements: readonly Measurement[], server: Key, call: CallKey): Measurement[] {
  return measurements.filter((row) => row.server === server && row.call === call);
}

function rate(measurements: readonly Measurement[], server: Key, call: CallKey): number {
  return median(of(measurements, server, call).map(({ callsPerSecond }) => callsPerSecond));
}

function spread(rates: readonly number[]): string {
  const text = (figure: number) => Math.round(figure).toLocaleString("en");
  if (rates.length === 1) return text(median(rates));
  return `${text(median(rates))} (${text(Math.min(...rates))}–${text(Math.max(...rates))})`;
}
