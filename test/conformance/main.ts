// Runs the official Connect conformance suite against our port and against Connect's adapter, and fails when ours
// fails a case that the adapter passes. The servers run on what runs this: `npm run test:conformance` on Node, and
// `deno run -A test/conformance/main.ts` on Deno.
import { parseArgs } from "node:util";
import { onPath } from "../support/on-path.ts";
import { faults, parseResults, type Results } from "./results.ts";
import { installSuite, type Suite } from "./suite.ts";
import { VARIANTS } from "./variants.ts";

const USAGE = `Usage: npm run test:conformance -- [options]
  --run PATTERN  only these cases, such as 'Deadline Propagation/**'
  --trace        show the exchanges of the cases that fail`;

const FOLDER = "dist-conformance";

/** One call after the other. */
const ALONE = ["--parallel", "1", "--max-servers", "1"];
/** More failures than this are not a matter of time. */
const MAX_REPEATED = 20;

try {
  await main();
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
}

async function main(): Promise<void> {
  const flags = runnerFlags();
  if (onPath("go") === undefined) return leaveOut("go is not on the PATH: the Connect conformance suite is LEFT OUT");
  const suite = installSuite(FOLDER);
  console.log(`The Connect conformance suite ${suite.version} on ${runtime()}:`);
  const ours = await test(VARIANTS.port, suite, flags);
  const adapter = await test(VARIANTS.adapter, suite, flags);
  for (const name of adapter.failures.keys()) console.log(`${VARIANTS.adapter} fails ${name}`);
  const found = faults(ours, adapter);
  if (found.length > 0)
    throw new Error(`\n${found.join("\n\n")}\n\n${VARIANTS.port} does not conform: ${found.length}`);
  console.log(`${VARIANTS.port} fails no case that ${VARIANTS.adapter} passes`);
}

/** Tests one server, and prints how many cases it passes. */
async function test(variant: string, suite: Suite, flags: readonly string[]): Promise<Results> {
  const started = performance.now();
  const command = serverCommand(variant, suite.descriptors);
  const first = parseResults(await suite.run(command, flags));
  const results = await withoutLateness(first, (names) => suite.run(command, [...ALONE, ...names]));
  const seconds = Math.round((performance.now() - started) / 1000);
  console.log(`${variant}: ${results.passed} of ${results.total} cases passed, in ${seconds} s`);
  return results;
}

/** Cases that hold deadlines against the clock fail on a busy machine: those count that fail by themselves too. */
async function withoutLateness(first: Results, run: (flags: readonly string[]) => Promise<string>): Promise<Results> {
  if (first.failures.size === 0 || first.failures.size > MAX_REPEATED) return first;
  const names = [...first.failures.keys()];
  const again = parseResults(await run(names.flatMap((name) => ["--run", name])));
  for (const name of names) if (!again.failures.has(name)) console.log(`passed when it was run by itself: ${name}`);
  return { total: first.total, passed: first.total - again.failures.size, failures: again.failures };
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

/** Says what is left out. @throws where continuous integration runs the tests, which is to leave out nothing */
function leaveOut(text: string): void {
  if (process.env["CI"] === "true") throw new Error(`${text}, which CI does not allow`);
  console.warn(`\n*** ${text} ***\n`);
}
