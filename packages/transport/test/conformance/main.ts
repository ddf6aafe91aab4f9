// Runs the official Connect conformance suite against the port on the current runtime. Node: `npm run
// test:conformance`. Deno: `deno run -A packages/transport/test/conformance/main.ts`.
import { parseArgs } from "node:util";
import { orLeaveOut } from "@user-group-service/testing/on-path";
import { parseResults } from "./results.ts";
import { installSuite } from "./suite.ts";

const USAGE = `Usage: npm run test:conformance -- [options]
  --run PATTERN  run only the cases that match, for example 'Deadline Propagation/**'
  --trace        show the requests and responses of failed cases`;

const FOLDER = "dist-conformance";

const ALONE = ["--parallel", "1", "--max-servers", "1"];

/**
 * The cases whose calls must reach their handler within half a second. The suite sends 32 concurrent calls to four
 * servers that have just started. On a busy machine, some of these calls would miss this deadline.
 */
const HURRIED = "Deadline Propagation/**";

try {
  await main();
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
}

async function main(): Promise<void> {
  const { patterns, trace } = runnerFlags();
  if (orLeaveOut("go", "the Connect conformance suite is") === undefined) return;
  const suite = installSuite(FOLDER);
  console.log(`The Connect conformance suite ${suite.version} on ${runtime()}:`);
  const started = performance.now();
  const all = [
    ["--skip", HURRIED],
    [...ALONE, "--run", HURRIED],
  ];
  const parts = patterns.length > 0 ? [[...ALONE, ...patterns]] : all;
  let passed = 0;
  const failures: string[] = [];
  for (const part of parts) {
    const results = parseResults(await suite.run(serverCommand(suite.descriptors), [...part, ...trace]));
    if (results.total === 0) throw new Error(`the suite has no case for ${part.join(" ")}`);
    passed += results.passed;
    failures.push(...results.failures);
  }
  const seconds = Math.round((performance.now() - started) / 1000);
  console.log(`${passed} of ${passed + failures.length} cases passed, in ${seconds} s`);
  if (failures.length > 0) throw new Error(`\n${failures.join("\n\n")}\n\nthe port does not conform`);
}

function serverCommand(descriptors: string): string[] {
  const server = import.meta.filename.replace(/main(\.[jt]s)$/, "server$1");
  const permissions = "deno" in process.versions ? ["run", "--no-prompt", "-A"] : [];
  return [process.execPath, ...permissions, server, descriptors];
}

function runtime(): string {
  const { node, deno } = process.versions;
  return deno === undefined ? `Node ${node}` : `Deno ${deno}`;
}

function runnerFlags(): { readonly patterns: readonly string[]; readonly trace: readonly string[] } {
  try {
    const { run = [], trace } = parseArgs({
      options: { run: { type: "string", multiple: true }, trace: { type: "boolean" } },
    }).values;
    return { patterns: run.flatMap((pattern) => ["--run", pattern]), trace: trace ? ["--trace"] : [] };
  } catch {
    throw new Error(USAGE);
  }
}
