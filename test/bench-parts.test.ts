import { textOf } from "@user-group-service/testing/documents";
import { describe, expect, it } from "vitest";
import { builtAt } from "../bench/calls/commits.ts";
import { CONTROL, differences } from "../bench/calls/differences.ts";
import { firstTable } from "../bench/report.ts";
import { serviceRow } from "../bench/rows.ts";
import type { Turn } from "../bench/turns.ts";

describe("the comparison of commits", () => {
  const QUIET = [0.995, 1, 1.005, 1.01];

  /** A table of servers. @param costs the ratio of each server to the first one, for each round */
  function tableOf(costs: { readonly [row: string]: readonly number[] }): string {
    const all = { service: [1, 1, 1, 1], ...costs };
    const turns = Object.entries(all).flatMap(([row, ratios]) =>
      ratios.flatMap((ratio, round) => [100, 900].map((micros): Turn => turn(row, round, micros * ratio))),
    );
    const rows = Object.keys(all).map((key) => serviceRow("node", { key, title: key }));
    return differences({ rows, runtimes: [], results: { startMs: [], turns, asides: [] } });
  }

  function turn(row: string, round: number, cpuMicros: number): Turn {
    const figures = { callsPerSecond: 1, storeMicros: 1, serverBusy: 1, loadBusy: 0, othersBusy: 0 };
    return { row, round, number: round, call: "restGet", cpuMicros, latency: undefined, ...figures };
  }

  const lineOf = (table: string, row: string) => table.split("\n").find((line) => line.startsWith(`| ${row} |`));

  it("has a verdict for each server, and only for a difference beyond the noise", () => {
    const table = tableOf({
      [CONTROL]: QUIET,
      expensive: [1.04, 1.06, 1.08, 1.1],
      little: [1.015, 1.02, 1.02, 1.025],
      noisy: [0.9, 0.95, 1.2, 1.3],
      cheap: [0.9, 0.91, 0.92, 0.93],
    });
    expect(lineOf(table, CONTROL)).toBe(`| ${CONTROL} | +0.2 % (−0.1 to +0.6) |  |`);
    expect(lineOf(table, "expensive")).toBe("| expensive | +7.0 % (+5.5 to +8.5) | costs more |");
    expect(lineOf(table, "little")).toMatch(/\| costs more \|$/);
    expect(lineOf(table, "cheap")).toMatch(/\| costs less \|$/);
    expect(lineOf(table, "noisy")).toMatch(/\| no difference beyond noise \|$/);
    expect(table).not.toContain("No conclusion");
  });

  it("has no verdict if the control differs from the first server", () => {
    const table = tableOf({ [CONTROL]: [1.01, 1.02, 1.03, 1.04], expensive: [1.2, 1.2, 1.2, 1.2] });
    expect(lineOf(table, "expensive")).toBe("| expensive | +20.0 % (+20.0 to +20.0) |  |");
    expect(table).toContain("**No conclusion: the control differs from the first server by more than 1.5 %.**");
  });

  it.each(["no-such-commit", "--all"])("refuses %s, which is not a commit", (commit) => {
    expect(() => builtAt(commit)).toThrow(commit);
  });
});

it("docs/performance.md contains the first table of bench/results/calls.md", () => {
  const table = firstTable(textOf("bench/results/calls.md"));
  expect(table).toMatch(/^\| .*\|\n\|---/);
  expect(textOf("docs/performance.md")).toContain(table);
});
