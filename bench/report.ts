import { writeFileSync } from "node:fs";
import type { Results } from "./benchmark.ts";
import { type Call, type CallKey, calls } from "./calls.ts";
import { isService, type Row } from "./rows.ts";
import type { RuntimeInfo } from "./runtimes.ts";
import { lowerQuartile, median, type Summary, summarise } from "./statistics.ts";
import type { Turn } from "./turns.ts";

/** What a table shows. */
export interface Report {
  readonly rows: readonly Row[];
  readonly runtimes: readonly RuntimeInfo[];
  readonly results: Results;
}

/** The pages that the benchmarks write: their titles, and the commands that write them. */
const PAGES = {
  calls: ["What a call costs, beside its peers", "npm run bench"],
  growth: ["What a group takes, and what many groups cost", "npm run bench -- growth"],
  introspect: ["What asking for a viewer costs, by token and by session", "npm run bench -- introspect"],
  overload: ["Under more than it can do", "npm run bench -- overload"],
  without: ["What each optimisation gains", "npm run bench -- --without all"],
} as const;

/** Writes a page of `bench/results/`. @param body Markdown without a title */
export function writeResults(page: keyof typeof PAGES, body: string): void {
  const [title, command] = PAGES[page];
  const origin = `Written by \`${command}\`; [docs/performance.md](../../docs/performance.md) says how it is measured.`;
  writeFileSync(`bench/results/${page}.md`, `# ${title}\n\n${origin}\n\n${body}\n`);
}

/** How quiet the machine was. */
export function noise({ turns }: Results): string {
  const shares = turns.map(({ othersBusy }) => othersBusy);
  const percent = (share: number) => `${Math.round(100 * share)} %`;
  return `Other processes took ${percent(median(shares))} of the servers' core, at most ${percent(Math.max(...shares))}.`;
}

/** A table for each call: every server, and this service beside it, turn by turn. */
export function comparison(report: Report): string {
  const sections = titles(report.results).map(([call, title]) => `## ${title}\n\n${table(report, call)}`);
  return sections.join("\n\n");
}

function table({ rows, runtimes, results }: Report, call: CallKey): string {
  const lines = [
    "| server | on | CPU µs a call | ours ÷ it | calls/s | ours ÷ it | p50 ms | p99 ms | MiB |",
    "|---|---|--:|--:|--:|--:|--:|--:|--:|",
  ];
  for (const row of rows) {
    const turns = turnsOf(results, row.key, call);
    if (turns.length === 0) continue;
    const asides = results.asides.filter((aside) => aside.row === row.key && aside.call === call);
    const latencies = asides.flatMap(({ latency }) => latency ?? []);
    const ours = opponent(rows, row);
    const ratio = (pick: (turn: Turn) => number) =>
      isService(row) ? "" : quartiles(ratios(turnsOf(results, ours, call), turns, pick), 2);
    // Where the server did not use its core up, something else was the limit.
    const bound = median(turns.map(({ serverBusy }) => serverBusy)) < 0.9 ? "≥ " : "";
    const rate = Math.round(median(turns.map((turn) => turn.callsPerSecond))).toLocaleString("en");
    lines.push(
      `| ${row.title} | ${runtimes.find(({ runtime }) => runtime === row.runtime)?.title} | ` +
        `${quartiles(summarise(turns.map(cpuMicros)), 1)} | ${ratio(cpuMicros)} | ` +
        `${bound}${rate} | ${ratio(callsPerSecond)} | ` +
        `${fixed(median(latencies.map(({ p50 }) => p50)), 2)} | ${fixed(median(latencies.map(({ p99 }) => p99)), 2)} | ` +
        `${Math.max(...asides.map(({ peakMiB }) => peakMiB)).toFixed(0)} |`,
    );
  }
  return lines.join("\n");
}

const cpuMicros = (turn: Turn) => turn.cpuMicros;
const callsPerSecond = (turn: Turn) => turn.callsPerSecond;

/** The row of this service that another is compared to: on the same runtime, or on the Node that runs the benchmark. */
function opponent(rows: readonly Row[], { runtime }: Row): string {
  const service = rows.find((row) => isService(row) && row.runtime === runtime);
  return service?.key ?? "service";
}

/** What is wanted, and whether it is reached. */
export function targets({ rows, results }: Report): string {
  const lines = ["| wanted | at most | measured | |", "|---|--:|--:|---|"];
  const add = (title: string, most: string, text: string, isReached: boolean) => {
    lines.push(`| ${title} | ${most} | ${text} | ${isReached ? "reached" : "**not reached**"} |`);
  };
  for (const { title, call, ours, theirs, most } of WANTED) {
    const ratio = ratios(turnsOf(results, ours, call), turnsOf(results, theirs, call), cpuMicros);
    if (Number.isNaN(ratio.median)) continue;
    add(`CPU a call: ${title}`, `${most.toFixed(2)} ×`, quartiles(ratio, 2), ratio.median <= most);
  }
  const own = results.asides.filter(({ row }) => row === "service");
  const p99 = median(own.flatMap(({ call, latency }) => (call === "grpcGet" && latency ? [latency.p99] : [])));
  if (!Number.isNaN(p99)) add("p99 of gRPC Get at half the peak, ms", String(MAX_P99), p99.toFixed(1), p99 <= MAX_P99);
  const start = median(results.startMs);
  add("start to listening, ms", String(MAX_START_MS), start.toFixed(0), start <= MAX_START_MS);
  const memory = Math.max(...own.map(({ peakMiB }) => peakMiB));
  if (rows.some(({ key }) => key === "service"))
    add("resident memory under load, MiB", String(MAX_MIB), memory.toFixed(0), memory <= MAX_MIB);
  return lines.join("\n");
}

const MAX_P99 = 19;
const MAX_START_MS = 300;
const MAX_MIB = 160;

interface Wanted {
  readonly title: string;
  readonly call: CallKey;
  /** Keys of rows. */
  readonly ours: string;
  readonly theirs: string;
  /** Ratio of CPU a call. */
  readonly most: number;
}

const WANTED: readonly Wanted[] = [
  { title: "gRPC Get ÷ grpc-js without encryption", call: "grpcGet", ours: "service", theirs: "grpcJs-plain", most: 1 },
  {
    title: "Connect JSON Get ÷ Fastify without encryption",
    call: "connectGet",
    ours: "service",
    theirs: "fastify-plain",
    most: 1.15,
  },
  {
    title: "REST GET ÷ Fastify without encryption",
    call: "restGet",
    ours: "service",
    theirs: "fastify-plain",
    most: 1.15,
  },
  { title: "REST GET on Deno ÷ its floor", call: "restGet", ours: "service-deno", theirs: "bareHttp-deno", most: 1 },
];

/** What leaving each of some things out costs: of each bout the ratio of the two servers, and of these the median. */
export function gains({ rows, results }: Report): string {
  const kinds = titles(results);
  const lines = [
    `| without | ${kinds.map(([, title]) => `${title}: CPU`).join(" | ")} | |`,
    `|---|${kinds.map(() => "--:|").join("")}---|`,
  ];
  for (const row of rows) {
    if (isService(row)) continue;
    const summaries = kinds.map(([call]) => summarise(boutRatios(results, row.key, call)));
    const verdict = verdictOf(
      row,
      summaries.map((summary) => summary.median),
    );
    lines.push(`| ${row.title} | ${summaries.map(percentQuartiles).join(" | ")} | ${verdict} |`);
  }
  return lines.join("\n");
}

function verdictOf({ key }: Row, medians: readonly number[]): string {
  if (key !== CONTROL) return Math.max(...medians) >= MIN_GAIN ? "stays" : "gains too little";
  const isQuiet = medians.every((ratio) => Math.abs(ratio - 1) <= MAX_CHANCE);
  return isQuiet ? "" : "**too far from 0 for this table to be believed**";
}

/** What a server's calls cost beside those of the service that was started with it, bout by bout. */
function boutRatios(results: Results, row: string, call: CallKey): number[] {
  const turns = turnsOf(results, row, call);
  const base = turnsOf(results, "service", call);
  return [...new Set(turns.map(({ bout }) => bout))].map((bout) => {
    const least = (of: readonly Turn[]) => lowerQuartile(of.filter((turn) => turn.bout === bout).map(cpuMicros));
    return least(turns) / least(base);
  });
}

/** The row that is the service once more: what differs is chance. */
export const CONTROL = "again";

/** What gains less of a call's processor time is not worth its keep. */
const MIN_GAIN = 1.03;

/** How much the service may differ from itself. */
const MAX_CHANCE = 0.015;

/** The ratios of two servers in each turn. */
function ratios(ours: readonly Turn[], theirs: readonly Turn[], pick: (turn: Turn) => number): Summary {
  return summarise(
    ours.flatMap((turn) => {
      const other = theirs.find(({ number }) => number === turn.number);
      return other ? [pick(turn) / pick(other)] : [];
    }),
  );
}

function turnsOf({ turns }: Results, row: string, call: CallKey): Turn[] {
  return turns.filter((turn) => turn.row === row && turn.call === call);
}

function titles({ turns }: Results): (readonly [CallKey, string])[] {
  const subject = { apiToken: "", readId: "", writtenId: "", userGroupToken: "" };
  return [...calls(subject)]
    .filter(([key]) => turns.some(({ call }) => call === key))
    .map(([key, { title }]: readonly [CallKey, Call]) => [key, title]);
}

function quartiles({ median: middle, low, high }: Summary, digits: number): string {
  return Number.isNaN(middle) ? "" : `${fixed(middle, digits)} (${fixed(low, digits)}–${fixed(high, digits)})`;
}

function percentQuartiles({ median: middle, low, high }: Summary): string {
  if (Number.isNaN(middle)) return "";
  const percent = (ratio: number) => `${ratio < 1 ? "−" : "+"}${Math.abs(100 * (ratio - 1)).toFixed(1)}`;
  return `${percent(middle)} % (${percent(low)} to ${percent(high)})`;
}

function fixed(figure: number, digits: number): string {
  return Number.isNaN(figure) ? "" : figure.toFixed(digits);
}
