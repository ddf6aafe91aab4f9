import { type CallKey, calls } from "../calls.ts";
import { quartiles, table, whole } from "../report.ts";
import { isService, READS, type Row } from "../rows.ts";
import type { RuntimeInfo } from "../runtimes.ts";
import { median, type Summary, summarise } from "../statistics.ts";
import type { Turn } from "../turns.ts";
import type { Results } from "./benchmark.ts";

export interface Measured {
  readonly rows: readonly Row[];
  readonly runtimes: readonly RuntimeInfo[];
  readonly results: Results;
}

const SUMMARY: readonly (readonly [title: string, ...rows: string[]])[] = [
  ["**this service**, Node 20", "service"],
  ["**this service**, Node 24", "service-node24"],
  ["**this service**, Deno", "service-deno"],
  ["this service through Connect's own adapter", "adapter"],
  ["@grpc/grpc-js with ioredis", "grpcJs"],
  ["Fastify with ioredis", "fastify"],
  ["bare `node:http2` or `node:http` with ioredis", "bareHttp2", "bareHttp"],
  ["grpc-go or `net/http` with rueidis", "grpcGo", "httpGo"],
  ["connect-go with rueidis", "connectGo"],
];

export function summary({ rows, results }: Measured): string {
  const lines = SUMMARY.flatMap(([title, ...keys]) => {
    const cells = READS.map((call) => {
      const key = keys.find((row) => turnsOf(results, row, call).length > 0);
      if (key === undefined) return "–";
      const turns = turnsOf(results, key, call);
      const isOurs = rows.some((row) => row.key === key && isService(row));
      const ratio = ratios(turnsOf(results, "service", call), turns, cpuMicros).median;
      return `${median(turns.map(cpuMicros)).toFixed(0)}${isOurs ? "" : ` (${ratio.toFixed(2)})`}`;
    });
    return cells.every((cell) => cell === "–") ? [] : [[title, ...cells]];
  });
  return table(["server", ">gRPC", ">Connect JSON", ">REST"], lines);
}

/**
 * Returns one table per call, with a row for every server. The ratios in a row compare this service with the server of
 * the row. A ratio compares turn N of this service with turn N of that server.
 */
export function comparison(measured: Measured): string {
  const sections = titles(measured.results).map(([call, title]) => `## ${title}\n\n${tableOf(measured, call)}`);
  return sections.join("\n\n");
}

function tableOf({ rows, runtimes, results }: Measured, call: CallKey): string {
  const columns = ["CPU µs per call", "service ÷ row", "calls/s", "service ÷ row", "p50 ms", "p99 ms", "MiB"];
  const lines = rows.flatMap((row) => {
    const turns = turnsOf(results, row.key, call);
    if (turns.length === 0) return [];
    const asides = results.asides.filter((aside) => aside.row === row.key && aside.call === call);
    const latencies = asides.flatMap(({ latency }) => latency ?? []);
    const ours = turnsOf(results, opponent(rows, row), call);
    const ratio = (pick: (turn: Turn) => number) => (isService(row) ? "" : quartiles(ratios(ours, turns, pick), 2));
    // If the server did not use its whole core, another process was the bottleneck. The server could then handle more
    // calls than measured.
    const bound = median(turns.map(({ serverBusy }) => serverBusy)) < 0.9 ? "≥ " : "";
    const middle = (times: readonly number[]) => (times.length === 0 ? "" : median(times).toFixed(2));
    return [
      [
        row.title,
        runtimes.find(({ runtime }) => runtime === row.runtime)?.title ?? "",
        quartiles(summarise(turns.map(cpuMicros)), 1),
        ratio(cpuMicros),
        bound + whole(median(turns.map((turn) => turn.callsPerSecond))),
        ratio((turn) => turn.callsPerSecond),
        middle(latencies.map(({ p50 }) => p50)),
        middle(latencies.map(({ p99 }) => p99)),
        Math.max(...asides.map(({ peakMiB }) => peakMiB)).toFixed(0),
      ],
    ];
  });
  return table(["server", "on", ...columns.map((column) => `>${column}`)], lines);
}

export function cpuMicros(turn: Turn): number {
  return turn.cpuMicros;
}

/**
 * Returns the key of the row in which this service has the same runtime as the given row. If this service has no row on
 * that runtime, returns the key of its row on `node`.
 */
function opponent(rows: readonly Row[], { runtime }: Row): string {
  const service = rows.find((row) => isService(row) && row.runtime === runtime);
  return service?.key ?? "service";
}

/** Returns a table that lists each goal, the measured value, and whether the goal is reached. */
export function targets({ results }: Measured): string {
  const lines: string[][] = [];
  const add = (title: string, most: string, text: string, isReached: boolean) => {
    lines.push([title, most, text, isReached ? "reached" : "**not reached**"]);
  };
  for (const [title, call, ours, theirs, most] of WANTED) {
    const ratio = ratios(turnsOf(results, ours, call), turnsOf(results, theirs, call), cpuMicros);
    if (Number.isNaN(ratio.median)) continue;
    add(`CPU per call: ${title}`, `${most.toFixed(2)} ×`, quartiles(ratio, 2), ratio.median <= most);
  }
  const own = results.asides.filter(({ row }) => row === "service");
  const p99 = median(own.flatMap(({ call, latency }) => (call === "grpcGet" && latency ? [latency.p99] : [])));
  if (!Number.isNaN(p99)) add("p99 of gRPC Get at half the peak, ms", String(MAX_P99), p99.toFixed(1), p99 <= MAX_P99);
  const start = median(results.startMs);
  add("start to listening, ms", String(MAX_START_MS), start.toFixed(0), start <= MAX_START_MS);
  const memory = Math.max(...own.map(({ peakMiB }) => peakMiB));
  add("resident memory under load, MiB", String(MAX_MIB), memory.toFixed(0), memory <= MAX_MIB);
  return table(["goal", ">at most", ">measured", ""], lines);
}

const MAX_P99 = 19;
const MAX_START_MS = 300;
const MAX_MIB = 160;

/** Goals for CPU per call. `most` is the largest allowed ratio of `ours` to `theirs`. */
const WANTED: readonly (readonly [title: string, call: CallKey, ours: string, theirs: string, most: number])[] = [
  ["gRPC Get ÷ grpc-js", "grpcGet", "service", "grpcJs", 1],
  ["gRPC Get ÷ grpc-js without encryption", "grpcGet", "service", "grpcJs-plain", 1],
  ["Connect JSON Get ÷ Fastify", "connectGet", "service", "fastify", 1],
  ["Connect JSON Get ÷ Fastify without encryption", "connectGet", "service", "fastify-plain", 1.15],
  ["REST GET ÷ Fastify", "restGet", "service", "fastify", 1],
  ["REST GET ÷ Fastify without encryption", "restGet", "service", "fastify-plain", 1.15],
  ["REST GET on Deno ÷ bare `node:http` on Deno", "restGet", "service-deno", "bareHttp-deno", 1],
];

function ratios(ours: readonly Turn[], theirs: readonly Turn[], pick: (turn: Turn) => number): Summary {
  return summarise(
    ours.flatMap((turn) => {
      const other = theirs.find(({ number }) => number === turn.number);
      return other ? [pick(turn) / pick(other)] : [];
    }),
  );
}

export function turnsOf({ turns }: Results, row: string, call: string): Turn[] {
  return turns.filter((turn) => turn.row === row && turn.call === call);
}

export function titles({ turns }: Results): (readonly [CallKey, string])[] {
  const subject = { apiToken: "", readId: "", writtenId: "", userGroupToken: "" };
  return [...calls(subject).values()]
    .filter(({ key }) => turns.some(({ call }) => call === key))
    .map(({ key, title }) => [key, title]);
}
