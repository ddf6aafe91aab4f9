import { readFile } from "node:fs/promises";
import { ROOT } from "@user-group-service/testing/process";
import { describe, expect, it } from "vitest";
import { builtAt, rowsOfCommits } from "../bench/calls/commits.ts";
import { CONTROL, differences } from "../bench/calls/differences.ts";
import { firstTable } from "../bench/report.ts";
import { serviceRow } from "../bench/rows.ts";
import type { Turn } from "../bench/turns.ts";

describe("what servers cost beside the first one", () => {
  const QUIET = [0.995, 1, 1.005, 1.01];

  /** A table of servers, by what each costs beside the first one in each round. */
  function tableOf(costs: { readonly [row: string]: readonly number[] }): string {
    const beside = { service: [1, 1, 1, 1], ...costs };
    const turns = Object.entries(beside).flatMap(([row, ratios]) =>
      ratios.flatMap((ratio, round) => [100, 900].map((micros): Turn => turn(row, round, micros * ratio))),
    );
    const rows = Object.keys(beside).map((key) => serviceRow("node", { key, title: key }));
    return differences({ rows, runtimes: [], results: { startMs: [], turns, asides: [] } });
  }

  function turn(row: string, round: number, cpuMicros: number): Turn {
    const figures = { callsPerSecond: 1, storeMicros: 1, serverBusy: 1, loadBusy: 0, othersBusy: 0 };
    return { row, round, number: round, call: "restGet", cpuMicros, latency: undefined, ...figures };
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
    expect(said(table, "dear")).toBe("| dear | +7.0 % (+5.5 to +8.5) | costs more |");
    expect(said(table, "little")).toMatch(/\| costs more \|$/);
    expect(said(table, "cheap")).toMatch(/\| costs less \|$/);
    expect(said(table, "noisy")).toMatch(/\| no difference beyond chance \|$/);
    expect(table).not.toContain("Nothing is concluded");
  });

  it("are not told when the control is off", () => {
    const table = tableOf({ [CONTROL]: [1.01, 1.02, 1.03, 1.04], dear: [1.2, 1.2, 1.2, 1.2] });
    expect(said(table, "dear")).toBe("| dear | +20.0 % (+20.0 to +20.0) |  |");
    expect(table).toContain("**Nothing is concluded: the first server differs from itself by more than 1.5 %.**");
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

it("docs/performance.md has the first table of bench/results/calls.md", async () => {
  const table = firstTable(await readFile(`${ROOT}/bench/results/calls.md`, "utf8"));
  expect(table).toMatch(/^\| .*\|\n\|---/);
  expect(await readFile(`${ROOT}/docs/performance.md`, "utf8")).toContain(table);
});
