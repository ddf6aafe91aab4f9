import { execFile } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { orLeaveOut } from "@user-group-service/testing/on-path";
import { newFolder } from "@user-group-service/testing/opened";
import { beforeAll, describe, expect, it } from "vitest";
import { redisUrl, suiteServer } from "../support/opened.ts";
import { ALERT_CASES, type AlertCase, type Input } from "./alert-cases.ts";
import { ALERTS, JOB, RULES_FILE } from "./files.ts";
import { exposeAll, formatSeries, type Series, watchedServer } from "./page.ts";

const run = promisify(execFile);
const promtool = orLeaveOut("promtool", "the tests of the alerts are");

describe("cases of alerts", () => {
  it("every alert has a case in which it fires, and a case in which it does not fire", () => {
    for (const { alert } of ALERTS) {
      const cases = ALERT_CASES.filter((each) => each.alert === alert);
      expect(new Set(cases.map(({ fires }) => fires !== undefined)), alert).toEqual(new Set([true, false]));
    }
  });
});

/** Returns the evaluation interval of the rules. Cases of more than a day have a long interval, to save time. */
const intervalOf = ({ at }: AlertCase) => (Number.parseInt(at, 10) > 24 && at.endsWith("h") ? "30m" : "1m");

describe.skipIf(promtool === undefined || redisUrl === undefined)("the alert rule", () => {
  const server = suiteServer(watchedServer);
  let exposed: readonly Series[];
  beforeAll(async () => {
    exposed = await exposeAll(server);
  });

  function seriesOf({ metric, labels = {}, as = {} }: Input): Series {
    const found = exposed.find(
      (each) => each.metric === metric && Object.entries(labels).every(([name, text]) => each.labels[name] === text),
    );
    if (!found) throw new Error(`the server exposes no ${metric} ${JSON.stringify(labels)}`);
    for (const name of Object.keys(as)) expect(found.labels).toHaveProperty(name);
    return { metric, labels: { ...found.labels, ...as } };
  }

  function testOf({ alert, series, at, fires }: AlertCase) {
    const known = ALERTS.find((each) => each.alert === alert);
    const inputs = series.map((input) => ({ ...seriesOf(input), values: input.values }));
    const own = inputs[0]?.labels ?? {};
    const labels = Object.fromEntries((fires?.labels ?? []).map((name) => [name, own[name]]));
    const description = known?.annotations.description.replace(
      /\{\{ \$(?:value.*?|labels\.(\w+)) \}\}/g,
      (_, label?: string) => (label === undefined ? fires?.value : labels[label]) ?? "",
    );
    return {
      interval: "1m",
      input_series: inputs.map((input) => ({ series: formatSeries(input), values: input.values })),
      alert_rule_test: [
        {
          eval_time: at,
          alertname: alert,
          exp_alerts: fires && [
            {
              exp_labels: { job: JOB, ...known?.labels, ...labels },
              exp_annotations: { ...known?.annotations, description },
            },
          ],
        },
      ],
    };
  }

  const titled = ALERT_CASES.map((each) => ({ ...each, result: each.fires ? "fires" : "does not fire" }));
  it.each(titled)("$alert $result when $when", async (each) => {
    const file = join(newFolder(), "test.yaml");
    // JSON is valid YAML.
    writeFileSync(
      file,
      JSON.stringify({ rule_files: [RULES_FILE], evaluation_interval: intervalOf(each), tests: [testOf(each)] }),
    );
    const { stdout } = await run(promtool as string, ["test", "rules", file]).catch((error) => error);
    expect(stdout).toContain("SUCCESS");
  });
});
