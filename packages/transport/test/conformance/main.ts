// Runs the official Connect conformance suite against our port. Where that fails a case, it runs the suite against
// Connect's adapter too, and fails when the adapter passes the case. The servers run on what runs this: `npm run test:conformance` on Node, and
// `deno run -A packages/transport/test/conformance/main.ts` on Deno.
import { parseArgs } from "node:util";
import { orLeaveOut } from "@user-group-service/testing/on-path";
import { faults, parseResults, type Results } from "./results.ts";
import { installSuite, type Suite } from "./suite.ts";
import { VARIANTS } from "./variants.ts";

const USAGE = `Usage: npm run test:conformance -- [options]
  --run PATTERN  only these cases, such as 'Deadline Propagation/**'
  --trace        show the exchanges of the cases that fail`;

const FOLDER = "dist-conformance";

/** One call after the other. */
const ALONE = ["--parallel", "1", "--max-servers", "1"];
/** More failures than this are not a matter of chance. */
const MAX_REPEATED = 50;

/** Suites whose calls have a deadline: a machine that is busy may be late for it, whatever it runs. */
const TIMED = /^(Deadline Propagation|Timeouts)\//;

try {
  await main();
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
}

async function main(): Promise<void> {
  const flags = runnerFlags();
  if (orLeaveOut("go", "the Connect conformance suite is") === undefined) return;
  const suite = installSuite(FOLDER);
  console.log(`The Connect conformance suite ${suite.version} on ${runtime()}:`);
  const ours = await test(VARIANTS.port, suite, { flags, isChance: (name) => TIMED.test(name) });
  if (ours.total > 0 && ours.failures.size === 0) return console.log(`${VARIANTS.port} fails no case`);
  // What it fails excuses ours, so all of that is repeated. Over HTTP/1.1 it closes the connection of a request that it
  // answers early, and with it calls that were sent behind that.
  const adapter = await test(VARIANTS.adapter, suite, { flags, isChance: () => true });
  for (const name of adapter.failures.keys()) console.log(`${VARIANTS.adapter} fails ${name}`);
  const found = faults(ours, adapter);
  if (found.length > 0)
    throw new Error(`\n${found.join("\n\n")}\n\n${VARIANTS.port} does not conform: ${found.length}`);
  console.log(`${VARIANTS.port} fails no case that ${VARIANTS.adapter} passes`);
}

/** How a server is tested. */
interface TestOptions {
  /** Those of the suite's runner. */
  readonly flags: readonly string[];
  /** Whether a failure of a case may be chance: then it counts if the case fails by itself too. */
  readonly isChance: (name: string) => boolean;
}

/** Tests one server, and prints how many cases it passes. */
async function test(variant: string, suite: Suite, { flags, isChance }: TestOptions): Promise<Results> {
  const started = performance.now();
  const command = serverCommand(variant, suite.descriptors);
  const first = parseResults(await suite.run(command, flags));
  const doubtful = [...first.failures.keys()].filter(isChance);
  const results = await repeated(first, doubtful, (runs) => suite.run(command, [...ALONE, ...runs]));
  const seconds = Math.round((performance.now() - started) / 1000);
  console.log(`${variant}: ${results.passed} of ${results.total} cases passed, in ${seconds} s`);
  return results;
}

/** What the cases that failed do when each is run by itself; says so of every one that passes then. */
async function repeated(
  first: Results,
  names: readonly string[],
  run: (flags: readonly string[]) => Promise<string>,
): Promise<Results> {
  if (names.length === 0 || names.length > MAX_REPEATED) return first;
  const again = parseResults(await run(names.flatMap((name) => ["--run", name])));
  const failures = new Map(first.failures);
  for (const name of names) {
    if (again.failures.has(name)) continue;
    console.log(`failed, and passed when it was run by itself: ${first.failures.get(name)?.trimEnd()}`);
    failures.delete(name);
  }
  return { total: first.total, passed: first.total - failures.size, failures };
}

/** The server beside this file, on the same runtime. */
function serverCommand(variant: string, descriptors: string): string[] {
  const server = import.meta.filename.replace(/main(\.[jt]s)$/, "server$1");
  const permissions = "deno" in process.versions ? ["run", "--no-prompt", "-A"] : [];
  return [process.execPath, ...permissions, server, variant, descriptors];
}

function runtime(): string {
  const { node, deno } = process.versions;
  return deno === undefined ? `Node ${node}` : `Deno ${deno}`;
}

function runnerFlags(): string[] {
  try {
    const { run = [], trace } = parseArgs({
      options: { run: { type: "string", multiple: true }, trace: { type: "boolean" } },
    }).values;
    return [...run.flatMap((pattern) => ["--run", pattern]), ...(trace ? ["--trace"] : [])];
  } catch {
    throw new Error(USAGE);
  }
}
