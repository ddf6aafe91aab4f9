import { writeFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { type Plan, runBenchmark } from "./benchmark.ts";
import { calls } from "./calls.ts";
import { describeMachine, pinToLoadCore, requireTools } from "./machine.ts";
import { comparison, gains, noise, type Report, targets, writeResults } from "./report.ts";
import { allRows, READS } from "./rows.ts";
import { findRuntimes, RUNTIMES } from "./runtimes.ts";
import { type BundleService, rowsWithout } from "./without.ts";

const CALLS = [...calls({ apiToken: "", readId: "", writtenId: "", userGroupToken: "" }).keys()];

const USAGE = `Usage: npm run bench -- [options]
       npm run bench -- growth | introspect [--quick] | overload [--quick]
  --without NAMES  this service with and without each optimisation of a comma list, or all; A+B is both at once
  --calls KEYS     comma list of ${CALLS.join(", ")}
  --runtimes KEYS  comma list of ${RUNTIMES.join(", ")} (default: all that are there)
  --rounds N       how often every server is started anew
  --turns N        turns of each server, for each call, in each round
  --quick          short turns, to see that it works
  --json FILE      keep the raw figures
Without options, and with --without all, the figures are kept in bench/results/.`;

/** A process needs some ten thousand calls of a kind until it is compiled throughout; on Deno, more. */
const DURATIONS = { warmUp: 5, turn: 0.9, paced: 2 };
/** Turns of two servers that hardly differ: many short ones, some of which nothing disturbs. */
const PAIRED = { warmUp: 2, turn: 0.3, paced: 0 };
const QUICK = { warmUp: 0.3, turn: 0.3, paced: 0.5 };

/** @param bundle how `npm run build` bundles the service */
export async function main(args: readonly string[], bundle: BundleService): Promise<void> {
  try {
    await measure(optionsOf(args), bundle);
  } catch (error) {
    console.error(messageOf(error));
    process.exitCode = 1;
  }
}

function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause === undefined ? error.message : `${error.message}: ${messageOf(error.cause)}`;
}

function optionsOf(args: readonly string[]) {
  const { values } = parseArgs({
    args: [...args],
    options: {
      without: { type: "string" },
      calls: { type: "string" },
      runtimes: { type: "string" },
      rounds: { type: "string" },
      turns: { type: "string" },
      quick: { type: "boolean", default: false },
      json: { type: "string" },
      help: { type: "boolean", default: false },
    },
  });
  const options = {
    ...values,
    rounds: countOf(values.rounds, values.quick ? 1 : values.without === undefined ? 2 : 6),
    turns: countOf(values.turns, values.quick ? 2 : values.without === undefined ? 5 : 10),
    calls: listOf(values.calls, CALLS) ?? (values.without === undefined ? CALLS : READS),
    runtimes: listOf(values.runtimes, RUNTIMES) ?? (values.without === undefined ? RUNTIMES : (["node"] as const)),
  };
  if (options.help || Number.isNaN(options.rounds + options.turns)) throw new Error(USAGE);
  return options;
}

async function measure(options: ReturnType<typeof optionsOf>, bundle: BundleService): Promise<void> {
  const { without, quick, json, rounds, turns } = options;
  requireTools();
  const runtimes = findRuntimes(options.runtimes.includes("node") ? options.runtimes : ["node", ...options.runtimes]);
  const rows =
    without === undefined ? allRows(runtimes.map(({ runtime }) => runtime)) : await rowsWithout(without, bundle);
  pinToLoadCore();
  const durations = quick ? QUICK : without === undefined ? DURATIONS : PAIRED;
  const [service, ...variants] = rows;
  const groups = without === undefined || !service ? [rows] : variants.map((variant) => [service, variant]);
  const plan: Plan = { groups, runtimes, calls: options.calls, rounds, turns, durations };
  const began = performance.now();
  const results = await runBenchmark(plan);
  console.error(`took ${((performance.now() - began) / 60_000).toFixed(1)} minutes`);
  if (json !== undefined) writeFileSync(json, `${JSON.stringify({ rows, ...results }, undefined, 1)}\n`);
  const report: Report = { rows, runtimes, results };
  const head =
    `${describeMachine(runtimes)}. Medians of ${rounds * turns} turns in ${rounds} rounds, quartiles in brackets. ` +
    noise(results);
  const parts = without === undefined ? [head, targets(report), comparison(report)] : [head, gains(report)];
  const text = parts.join("\n\n");
  console.log(text);
  const isWhole =
    !quick && options.calls === (without === undefined ? CALLS : READS) && runtimes.length === options.runtimes.length;
  if (isWhole && (without === undefined || without === "all")) {
    writeResults(without === undefined ? "calls" : "without", text);
  } else console.error("bench/results/ is left as it is: this was a part of a run");
}

function countOf(text: string | undefined, usual: number): number {
  if (text === undefined) return usual;
  return /^[1-9]\d*$/.test(text) ? Number(text) : Number.NaN;
}

/** @throws when a name is none of those that are known */
function listOf<T extends string>(text: string | undefined, known: readonly T[]): readonly T[] | undefined {
  return text?.split(",").map((name) => {
    const one = known.find((key) => key === name);
    if (one === undefined) throw new Error(`${name} is none of ${known.join(", ")}`);
    return one;
  });
}
