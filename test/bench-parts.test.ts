import { describe, expect, it } from "vitest";
import { builtAt } from "../bench/calls/commits.ts";
import { CONTROL, differences } from "../bench/calls/differences.ts";
import { closedLoop, outcomesOf } from "../bench/overload/load.ts";
import { serviceRow } from "../bench/rows.ts";
import type { Turn } from "../bench/turns.ts";

describe("the comparison of commits", () => {
  const QUIET = [0.995, 1, 1.005, 1.01];

  /**
   * @param costs contains a list for each server. The list has the cost of the server in each round, as a multiple of
   * the cost of the server `service`
   */
  function tableOf(costs: { readonly [row: string]: readonly number[] }): string {
    const all = { service: [1, 1, 1, 1], ...costs };
    const turns = Object.entries(all).flatMap(([row, ratios]) =>
      ratios.flatMap((ratio, round) => [100, 900].map((micros): Turn => turn(row, round, micros * ratio))),
    );
    const rows = Object.keys(all).map((key) => serviceRow("node", { key, title: key }));
    return differences({ rows, runtimes: [], results: { startMs: [], turns, asides: [] } });
  }

  function turn(row: string, round: number, cpuMicros: number): Turn {
    const figures = { callsPerSecond: 1, serverBusy: 1, othersBusy: 0 };
    return { row, round, number: round, call: "restGet", cpuMicros, ...figures };
  }

  const lineOf = (table: string, row: string) => table.split("\n").find((line) => line.startsWith(`| ${row} |`));

  it("reports a higher or lower cost only if the difference exceeds the noise", () => {
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

  it("draws no conclusion if the control and the first server differ in cost, although both run the same commit", () => {
    const table = tableOf({ [CONTROL]: [1.01, 1.02, 1.03, 1.04], expensive: [1.2, 1.2, 1.2, 1.2] });
    expect(lineOf(table, "expensive")).toBe("| expensive | +20.0 % (+20.0 to +20.0) |  |");
    expect(table).toContain("**No conclusion: the control differs from the first server by more than 1.5 %.**");
  });

  it.each(["no-such-commit", "--all"])("refuses %s, which is not a commit", (commit) => {
    expect(() => builtAt(commit)).toThrow(commit);
  });
});

describe("the overload benchmark", () => {
  /** Returns the counts for a log of h2load. The summary of h2load counts every status except 2xx as failed. */
  function outcomes(
    statuses: readonly number[],
    { broken = 0, dataBytes = 0, answerBytes = undefined as number | undefined },
  ) {
    const failed = broken + statuses.filter((status) => status >= 400).length;
    const output = [
      `requests: 10 total, 10 started, 10 done, 4 succeeded, ${failed} failed, ${broken} errored, 0 timeout`,
      `traffic: 6.06MB (6349258) total, 1.11MB (1164832) headers (space savings 77.31%), 5.30MB (${dataBytes}) data`,
    ].join("\n");
    const rows = statuses.map((status, i) => [1000 * i, status, 2000] as const);
    return outcomesOf(output, rows, { seconds: 2, answerBytes });
  }

  it("counts answers, refusals and failures by their HTTP status", () => {
    const { answeredPerSecond, refusedPerSecond, failed, p99 } = outcomes([200, 200, 503, 429, 401, 503, 500, -1, 0], {
      broken: 2,
    });
    expect([answeredPerSecond, refusedPerSecond, failed, p99]).toEqual([1, 2, 3, 2]);
  });

  it("counts gRPC refusals by the received bytes, because a gRPC refusal has the HTTP status 200", () => {
    const { answeredPerSecond, refusedPerSecond, failed } = outcomes([200, 200, 200, 200, 200, 200, 0, 0, -1], {
      broken: 1,
      dataBytes: 600,
      answerBytes: 100,
    });
    expect([answeredPerSecond, refusedPerSecond, failed]).toEqual([3, 1, 1]);
  });

  it("reports 0 answered calls per second if no call is answered", () => {
    expect(outcomes([], {})).toEqual({ answeredPerSecond: 0, refusedPerSecond: 0, failed: 0, p99: Number.NaN });
  });

  it("opens fewer HTTP/1.1 connections than the default of MAX_CONNECTIONS", () => {
    expect(closedLoop(1, 20_000)).toMatchObject({ title: "4,000 in flight", connections: 4000, streams: 1 });
    expect(closedLoop(2, 20_000)).toMatchObject({ title: "20,000 in flight", connections: 80, streams: 250 });
  });
});
