import { textOf } from "@user-group-service/testing/documents";
import { beforeAll, describe, expect, it } from "vitest";
import { ugs } from "../../packages/cli/test/support/ugs.ts";
import { describeWithRedis, suiteServer } from "../support/opened.ts";
import { ALERTS, type Alert, DASHBOARD, panelQueries, RECORDED } from "./files.ts";
import { beWatched, pageOf, readSeries, type Series, watchedServer } from "./page.ts";
import { isSelected, readQuery } from "./promql.ts";

/** The labels that a text for people takes from an alert or a series. */
const labelsIn = (text: string) =>
  [...text.matchAll(/\{\{ *(?:\$labels\.)?(\w+) *\}\}/g)].map(([, label = ""]) => label);

describeWithRedis("what watches the service", () => {
  const server = suiteServer(watchedServer);
  let series: readonly Series[];
  beforeAll(async () => {
    await beWatched(server);
    series = await readSeries(pageOf(server));
  });

  /** What an expression asks for that the service does not expose. */
  function missingIn(expression: string, further: readonly string[] = []): string[] {
    const { selectors, groupedBy } = readQuery(expression);
    const known = new Set(["job", "instance"]);
    const faults: string[] = [];
    for (const selector of selectors) {
      const recorded = RECORDED.find(({ record }) => record === selector.metric);
      if (recorded) continue;
      const found = series.filter(({ metric, labels }) => metric === selector.metric && isSelected(labels, selector));
      for (const { labels } of found) for (const label of Object.keys(labels)) known.add(label);
      if (found.length === 0) faults.push(`${selector.metric} ${JSON.stringify(selector.matchers)}`);
    }
    return [...faults, ...[...groupedBy, ...further].filter((label) => !known.has(label))];
  }

  it.each(RECORDED)("$record is recorded of what the service exposes", ({ expr }) => {
    expect(missingIn(expr)).toEqual([]);
  });

  it.each(ALERTS)("$alert asks for what the service exposes", ({ expr, annotations }) => {
    expect(missingIn(expr, labelsIn(annotations.description))).toEqual([]);
  });

  it.each(panelQueries("1m"))("the panel $title asks for what the service exposes", ({ expr, legendFormat }) => {
    expect(missingIn(expr, labelsIn(legendFormat))).toEqual([]);
  });

  it("would be seen to miss a metric, a label and a value", () => {
    expect(missingIn("sum by (grpc_code) (rate(grpc_server_handled[1m]))")).toEqual([
      "grpc_server_handled []",
      "grpc_code",
    ]);
    expect(missingIn('ugs_limited_total{limit="addresses"}')).toHaveLength(1);
    expect(missingIn("sum by (code) (ugs_limited_total)")).toEqual(["code"]);
    expect(() => readQuery("sum(rate(")).toThrow("not PromQL");
  });

  it("looks for the instances of the job", () => {
    const ofInstances = DASHBOARD.templating.list.find(({ name }) => name === "instance");
    expect(ofInstances?.definition).toBe('label_values(up{job="user-group-service"}, instance)');
  });
});

describe("the alerts", () => {
  const runbook = textOf("docs/operations.md");
  const sections = runbook.split(/^#{1,3} /m).filter((text) => /^UserGroups\w+\n/.test(text));

  it.each(ALERTS)("$alert says how urgent it is, what is wrong, and where to read on", (alert: Alert) => {
    expect(["page", "ticket"]).toContain(alert.labels.severity);
    expect(alert.annotations.summary).toMatch(/^[A-Z][^.]+$/);
    expect(alert.annotations.description).toMatch(/^\S.*\.$/);
    expect(alert.annotations.runbook_url).toBe(`docs/operations.md#${alert.alert.toLowerCase()}`);
  });

  it("have a section each in the document, with three steps", () => {
    expect(sections.map((text) => text.slice(0, text.indexOf("\n"))).sort()).toEqual(
      ALERTS.map(({ alert }) => alert).sort(),
    );
    for (const text of sections) expect(text.match(/^\d\. /gm), text).toEqual(["1. ", "2. ", "3. "]);
  });

  it("stand in a document whose commands of ugs there are, with the options that they have there", async () => {
    const written = [...runbook.matchAll(/\bugs ([a-z-]+(?: [a-z]+){0,2})\b([^`|;\n]*)/g)];
    expect(written.length).toBeGreaterThan(20);
    for (const [line, words = "", rest = ""] of written) {
      const { code, stdout } = await ugs([...words.split(" "), "--help"]);
      expect(code, line).toBe(0);
      // What follows a command without subcommands is an argument of it, or a word of the text.
      const usage = new RegExp(`^Usage: ugs (?:${words}\\b|${words.split(" ")[0]} (?!.*command))`);
      expect(stdout, line).toMatch(usage);
      for (const [option] of rest.matchAll(/--[a-z-]+/g)) expect(stdout, line).toContain(option);
    }
  });

  it("are all in the table that the document begins with", () => {
    for (const { alert, labels } of ALERTS) {
      const row = new RegExp(
        `^\\|.*\\[\`?${alert}\`?\\]\\(#${alert.toLowerCase()}\\).*\\| ${labels.severity} \\|`,
        "m",
      );
      expect(runbook).toMatch(row);
    }
  });
});
