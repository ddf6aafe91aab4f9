import { readdirSync } from "node:fs";
import { sectionsOf, textOf } from "@user-group-service/testing/documents";
import { ROOT } from "@user-group-service/testing/process";
import { beforeAll, describe, expect, it } from "vitest";
import { ugs } from "../../packages/cli/test/support/ugs.ts";
import { describeWithRedis, suiteServer } from "../support/opened.ts";
import { ALERTS, DASHBOARD, JOB, panelQueries, RECORDED } from "./files.ts";
import { exposeAll, type Series, watchedServer } from "./page.ts";
import { isSelected, readQuery } from "./promql.ts";

const labelsIn = (text: string) =>
  [...text.matchAll(/\{\{ *(?:\$labels\.)?(\w+) *\}\}/g)].map(([, label = ""]) => label);

describeWithRedis("alerts and dashboard", () => {
  const server = suiteServer(watchedServer);
  let series: readonly Series[];
  beforeAll(async () => {
    series = await exposeAll(server);
  });

  /** Returns the selectors that match no exposed series, and the labels that no matching series has. */
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

  it.each(RECORDED)("$record uses exposed metrics and labels", ({ expr }) => {
    expect(missingIn(expr)).toEqual([]);
  });

  it.each(ALERTS)("$alert uses exposed metrics and labels", ({ expr, annotations }) => {
    expect(missingIn(expr, labelsIn(annotations.description))).toEqual([]);
  });

  it.each(panelQueries("1m"))("the panel $title uses exposed metrics and labels", ({ expr, legendFormat }) => {
    expect(missingIn(expr, labelsIn(legendFormat))).toEqual([]);
  });

  it("the function that checks expressions reports missing metrics, labels and values", () => {
    expect(missingIn("sum by (grpc_code) (rate(grpc_server_handled[1m]))")).toEqual([
      "grpc_server_handled []",
      "grpc_code",
    ]);
    expect(missingIn('ugs_limited_total{limit="addresses"}')).toHaveLength(1);
    expect(missingIn("sum by (code) (ugs_limited_total)")).toEqual(["code"]);
    expect(() => readQuery("sum(rate(")).toThrow("not PromQL");
  });

  it("the dashboard's variable `instance` lists the instances of the job", () => {
    const variable = DASHBOARD.templating.list.find(({ name }) => name === "instance");
    expect(variable?.definition).toBe(`label_values(up{job="${JOB}"}, instance)`);
  });
});

describe("alerts and the runbook", () => {
  const runbook = textOf("docs/operations/incidents.md");

  it("every alert has a section in the runbook, which has no other sections", () => {
    expect(sectionsOf("docs/operations/incidents.md").sort()).toEqual(ALERTS.map(({ alert }) => alert).sort());
  });

  it.each(ALERTS)(
    "$alert has a severity, a link to the runbook, and an item in the runbook's list for its severity",
    ({ alert, labels, annotations }) => {
      expect(["page", "ticket"]).toContain(labels.severity);
      expect(annotations.runbook_url).toBe(`docs/operations/incidents.md#${alert.toLowerCase()}`);
      const [, list = ""] = runbook.split(`Alerts of severity \`${labels.severity}\`:\n\n`);
      expect(list.split("\n\n")[0]).toContain(`(#${alert.toLowerCase()})`);
    },
  );
});

/** Placeholder in the source of a log message. The logged message has `reads` or `changes` instead. */
const KIND = "${" + "kind}";

describe("the documentation for operators", () => {
  const folder = "docs/operations";
  const text = readdirSync(`${ROOT}/${folder}`)
    .map((name) => textOf(`${folder}/${name}`))
    .join("\n");

  it("contains only `ugs` commands and options that exist", async () => {
    const written = [...text.matchAll(/\bugs ([a-z]+(?:[ -][a-z]+){0,3})\b([^`|;\n]*)/g)];
    expect(written.length).toBeGreaterThan(20);
    const helps = new Map<string, ReturnType<typeof ugs>>();
    for (const [line, words = "", rest = ""] of written) {
      const help = helps.get(words) ?? ugs([...words.split(" "), "--help"]);
      helps.set(words, help);
      const { code, stdout } = await help;
      expect(code, line).toBe(0);
      // If the command has no subcommands, the words after it are arguments, or belong to the sentence of the document.
      const usage = new RegExp(`^Usage: ugs (?:${words}\\b|${words.split(" ")[0]} (?!.*command))`);
      expect(stdout, line).toMatch(usage);
      for (const [option] of rest.matchAll(/--[a-z-]+/g)) expect(stdout, line).toContain(option);
    }
  });

  it("searches the log only for messages that the service writes", () => {
    const files = readdirSync(`${ROOT}/src`, { recursive: true, encoding: "utf8" });
    const source = files
      .filter((name) => name.endsWith(".ts") && !name.endsWith(".test.ts"))
      .map((name) => textOf(`src/${name}`))
      .join("\n");
    const kinds = ["reads", "changes"].map((kind) => source.replaceAll(KIND, kind));
    const searched = [...text.matchAll(/logs \| grep (?:-\w+ )*'([^']+)'/g)].flatMap(([, pattern = ""]) =>
      pattern.split("|"),
    );
    const messages = searched
      .map((pattern) => pattern.replace(/^"msg":"(.*)"$/, "$1"))
      .filter((each) => !each.includes('"'));
    expect(messages.length).toBeGreaterThan(5);
    for (const message of messages)
      expect(
        kinds.some((each) => each.includes(message)),
        message,
      ).toBe(true);
  });
});
