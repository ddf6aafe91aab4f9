import { writeFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { calls } from "../calls.ts";
import { describeMachine, prepareMachine } from "../machine.ts";
import { noise, type Page, report } from "../report.ts";
import { allRows, READS, type Row } from "../rows.ts";
import { findRuntimes, RUNTIMES, type Runtime } from "../runtimes.ts";
import { runBenchmark } from "./benchmark.ts";
import { builtAt, HERE, rowsOfCommits } from "./commits.ts";
import { differences } from "./differences.ts";
import { comparison, type Measured, summary, targets } from "./tables.ts";

const CALLS = [...calls({ apiToken: "", readId: "", writtenId: "", userGroupToken: "" }).keys()];

const USAGE = `Usage: npm run bench -- [name] [options]
  (no name)             this service beside its peers
  commits BASE [HEAD]   two commits; without HEAD: a commit and the working files
  growth [--quick]      a million groups in one environment
  overload [--quick]    more calls than a worker can answer
Options if the name is commits, or if no name is given:
  --calls KEYS          comma-separated list of ${CALLS.join(", ")}
  --runtimes KEYS       comma-separated list of ${RUNTIMES.join(", ")} (default: all installed)
  --rounds N            number of rounds; each round restarts every server
  --turns N             number of turns per server, call and round
  --quick               short turns, to check that the benchmark works
  --json FILE           write the raw figures to FILE
A complete run writes its results to bench/results/. A run of commits does not.`;

/**
 * The warm-up is long enough for the runtime to compile all code of a call. Node needs about 10,000 calls. Deno
 * needs more calls than Node.
 */
const DURATIONS = { warmUp: 5, turn: 0.9, paced: 2 };
/**
 * Durations for servers with similar costs. If there are many short turns, other processes disturb only some of them.
 */
const SHORT = { warmUp: 2, turn: 0.3, paced: 0 };
const QUICK = { warmUp: 0.3, turn: 0.3, paced: 0.5 };

interface Kind {
  readonly page: Page | undefined;
  readonly runtimes: readonly Runtime[];
  readonly calls: typeof CALLS;
  readonly rounds: number;
  readonly turns: number;
  readonly durations: typeof DURATIONS;
  readonly rows: (runtimes: readonly Runtime[]) => Row[] | Promise<Row[]>;
  readonly tables: readonly ((measured: Measured) => string)[];
}

function optionsOf(args: readonly string[]) {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: {
      calls: { type: "string" },
      runtimes: { type: "string" },
      rounds: { type: "string" },
      turns: { type: "string" },
      quick: { type: "boolean", default: false },
      json: { type: "string" },
      help: { type: "boolean", default: false },
    },
  });
  const rounds = countOf(values.rounds);
  const turns = countOf(values.turns);
  if (values.help || Number.isNaN((rounds ?? 0) + (turns ?? 0))) throw new Error(USAGE);
  return {
    ...{ ...values, positionals, rounds, turns },
    calls: listOf(values.calls, CALLS),
    runtimes: listOf(values.runtimes, RUNTIMES),
  };
}

function kindOf({ positionals: [what, base, head] }: ReturnType<typeof optionsOf>): Kind {
  if (what === "commits" && base !== undefined) {
    return {
      runtimes: ["node"],
      calls: [...READS],
      turns: 10,
      rounds: 6,
      durations: SHORT,
      page: undefined,
      rows: () => rowsOfCommits(builtAt(base), head === undefined ? HERE : builtAt(head)),
      tables: [differences],
    };
  }
  if (what !== undefined) throw new Error(USAGE);
  const all = { runtimes: RUNTIMES, calls: CALLS, rounds: 2, turns: 5, durations: DURATIONS };
  return { ...all, page: "calls", rows: allRows, tables: [summary, targets, comparison] };
}

export async function main(args: readonly string[]): Promise<void> {
  const options = optionsOf(args);
  const kind = kindOf(options);
  const { quick, json } = options;
  prepareMachine();
  const wanted = options.runtimes ?? kind.runtimes;
  const runtimes = findRuntimes(wanted.includes("node") ? wanted : ["node", ...wanted]);
  const rows = await kind.rows(runtimes.map(({ runtime }) => runtime));
  const plan = {
    rows,
    runtimes,
    calls: options.calls ?? kind.calls,
    rounds: options.rounds ?? (quick ? 1 : kind.rounds),
    turns: options.turns ?? (quick ? 2 : kind.turns),
    durations: quick ? QUICK : kind.durations,
  };
  const began = performance.now();
  const results = await runBenchmark(plan);
  console.error(`took ${((performance.now() - began) / 60_000).toFixed(1)} minutes`);
  if (json !== undefined) writeFileSync(json, `${JSON.stringify({ rows, ...results }, undefined, 1)}\n`);
  const many = `${plan.rounds * plan.turns} turns in ${plan.rounds} rounds`;
  const head = `${describeMachine(runtimes)}. Medians of ${many}, quartiles in brackets. ${noise(results.turns)}`;
  const tables = kind.tables.map((table) => table({ rows, runtimes, results }));
  const isWhole =
    !quick &&
    runtimes.length === kind.runtimes.length &&
    (["calls", "rounds", "turns"] as const).every((each) => plan[each] === kind[each]);
  report([head, ...tables].join("\n\n"), isWhole ? kind.page : undefined);
}

function countOf(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  return /^[1-9]\d*$/.test(text) ? Number(text) : Number.NaN;
}

function listOf<T extends string>(text: string | undefined, known: readonly T[]): T[] | undefined {
  return text?.split(",").map((name) => {
    const one = known.find((key) => key === name);
    if (one === undefined) throw new Error(`${name} is not one of ${known.join(", ")}`);
    return one;
  });
}
