import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ROOT, startProcess, waitUntilSaid } from "@user-group-service/testing/process";
import { build } from "esbuild";
import { describe, expect, it } from "vitest";
import { builtAt, rowsOfCommits, whatItCosts } from "../bench/calls/commits.ts";
import { CONTROL, differences } from "../bench/calls/differences.ts";
import { isWorthIt } from "../bench/calls/without.ts";
import { firstTable } from "../bench/report.ts";
import { serviceRow } from "../bench/rows.ts";
import type { Turn } from "../bench/turns.ts";
import { INSPECTABLE, inspect } from "../bench/way/inspect.ts";
import { filesPassed, functionsPassed, type ScriptCoverage } from "../bench/way/passed.ts";
import { linesOf } from "./support/server.ts";

describe("what servers cost beside the first one", () => {
  const QUIET = [0.995, 1, 1.005, 1.01];

  /** A table of servers, by what each costs beside the first one in each round. */
  function tableOf(costs: { readonly [row: string]: readonly number[] }, verdict = isWorthIt): string {
    const beside = { service: [1, 1, 1, 1], ...costs };
    const turns = Object.entries(beside).flatMap(([row, ratios]) =>
      ratios.flatMap((ratio, bout) => [100, 900].map((micros): Turn => turn(row, bout, micros * ratio))),
    );
    const rows = Object.keys(beside).map((key) => serviceRow("node", { key, title: key }));
    return differences({ rows, runtimes: [], results: { startMs: [], turns, asides: [] } }, "without", verdict);
  }

  function turn(row: string, bout: number, cpuMicros: number): Turn {
    const figures = { callsPerSecond: 1, storeMicros: 1, serverBusy: 1, loadBusy: 0, othersBusy: 0 };
    return { row, bout, number: bout, call: "restGet", cpuMicros, latency: undefined, ...figures };
  }

  const said = (table: string, row: string) => table.split("\n").find((line) => line.startsWith(`| ${row} |`));

  it("are told where they surely differ, and only there", () => {
    const table = tableOf({
      [CONTROL]: QUIET,
      dear: [1.04, 1.06, 1.08, 1.1],
      little: [1.015, 1.02, 1.02, 1.025],
      noisy: [0.9, 0.95, 1.2, 1.3],
      cheap: [0.9, 0.91, 0.92, 0.93],
    });
    expect(said(table, CONTROL)).toBe(`| ${CONTROL} | +0.2 % (−0.1 to +0.6) |  |`);
    expect(said(table, "dear")).toBe("| dear | +7.0 % (+5.5 to +8.5) | stays |");
    expect(said(table, "little")).toMatch(/\| gains too little \|$/);
    for (const row of ["noisy", "cheap"]) {
      expect(said(table, row), row).toMatch(/\| gains nothing that can be told from chance \|$/);
    }
    expect(table).not.toContain("Nothing is concluded");
  });

  it("are not told when the control is off", () => {
    const table = tableOf({ [CONTROL]: [1.01, 1.02, 1.03, 1.04], dear: [1.2, 1.2, 1.2, 1.2] });
    expect(said(table, "dear")).toBe("| dear | +20.0 % (+20.0 to +20.0) |  |");
    expect(table).toContain("**Nothing is concluded: the first server differs from itself by more than 1.5 %.**");
  });

  it("are told of commits", () => {
    const of = (head: readonly number[]) => said(tableOf({ [CONTROL]: QUIET, head }, whatItCosts), "head");
    expect(of([1.05, 1.06, 1.07, 1.08])).toMatch(/\| costs more \|$/);
    expect(of([0.9, 0.91, 0.92, 0.93])).toMatch(/\| costs less \|$/);
    expect(of([0.99, 1, 1.01, 1.02])).toMatch(/\| no difference that can be told from chance \|$/);
  });
});

describe("commits", () => {
  it("are the first, the first once more, and the second, which has records of its own", () => {
    const rows = rowsOfCommits({ title: "a", dist: "/a/dist" }, { title: "b", dist: "/b/dist" });
    expect(rows).toMatchObject([
      { key: "service", entry: "/a/dist/main.js", database: 0 },
      { key: CONTROL, entry: "/a/dist/main.js", database: 0 },
      { key: "head", entry: "/b/dist/main.js", database: 1 },
    ]);
  });

  it("are there", () => {
    expect(() => builtAt("no-such-commit")).toThrow("no-such-commit");
    expect(() => builtAt("--all")).toThrow("--all");
  });
});

it("counts the functions of ours that run in at least every second call, by their places in src/", async () => {
  const folder = await mkdtemp(join(tmpdir(), "ugs-way-"));
  const sources = {
    "src/main.ts": [
      'import { Counter, once as often } from "./deep/count.ts";',
      "function once() { return new Counter().step(often(2)); }",
      "function rarely() {}",
      'process.on("SIGUSR2", () => {',
      "  for (let call = 0; call < 10; call++) { once(); if (call % 3 === 0) rarely(); }",
      '  console.log(JSON.stringify({ msg: "made" }));',
      "});",
      'console.log(JSON.stringify({ msg: "listening" }));',
    ],
    "src/deep/count.ts": [
      "const twice = (n: number) => n + n;",
      "export function once(n: number) { return twice(twice(n)); }",
      "export class Counter { n = 0; step(by: number) { return (this.n += by); } }",
    ],
  };
  await mkdir(join(folder, "src/deep"), { recursive: true });
  for (const [path, lines] of Object.entries(sources)) await writeFile(join(folder, path), lines.join("\n"));
  const dist = join(folder, "dist");
  const main = join(folder, "src/main.ts");
  await build({ entryPoints: [main], bundle: true, format: "esm", platform: "node", outdir: dist, sourcemap: true });
  const server = startProcess([process.execPath, join(dist, "main.js")], { env: INSPECTABLE, cwd: folder });
  try {
    const log = linesOf(server.output);
    await waitUntilSaid(server, "it listens", () => log().some(({ msg }) => msg === "listening"));
    const probe = inspect({ ...server, log });
    await probe("Profiler.enable");
    await probe("Profiler.startPreciseCoverage", { callCount: true, detailed: false });
    server.signal("SIGUSR2");
    await waitUntilSaid(server, "calls are made", () => log().some(({ msg }) => msg === "made"));
    const { result } = await probe<{ result: ScriptCoverage[] }>("Profiler.takePreciseCoverage");
    expect(filesPassed(functionsPassed(result, 10, dist))).toEqual([
      ["src/deep/count.ts", "twice×2, once, fields, step"],
      ["src/main.ts", "once"],
    ]);
    await expect(probe("Profiler.noSuch")).rejects.toThrow("Profiler.noSuch");
  } finally {
    server.signal("SIGKILL");
    await server.exited();
    await rm(folder, { recursive: true });
  }
});

it.each(["calls", "way"])("docs/performance.md has the first table of bench/results/%s.md", async (page) => {
  const table = firstTable(await readFile(`${ROOT}/bench/results/${page}.md`, "utf8"));
  expect(table).toMatch(/^\| .*\|\n\|---/);
  expect(await readFile(`${ROOT}/docs/performance.md`, "utf8")).toContain(table);
});
