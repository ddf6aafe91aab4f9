import { readFileSync } from "node:fs";
import { ROOT } from "@user-group-service/testing/process";
import { parse } from "yaml";

export const RULES_FILE = `${ROOT}/deploy/helm/files/alerts.yaml`;

export const JOB = "user-group-service";

export interface Alert {
  readonly alert: string;
  readonly expr: string;
  readonly for?: string;
  readonly labels: { readonly severity: string };
  readonly annotations: { readonly summary: string; readonly description: string; readonly runbook_url: string };
}

export interface Recorded {
  readonly record: string;
  readonly expr: string;
}

interface Rules {
  readonly groups: readonly { readonly name: string; readonly rules: readonly (Alert | Recorded)[] }[];
}

const { groups } = parse(readFileSync(RULES_FILE, "utf8")) as Rules;
const rules = groups.flatMap((group) => group.rules);

export const ALERTS: readonly Alert[] = rules.filter((rule) => "alert" in rule);
export const RECORDED: readonly Recorded[] = rules.filter((rule) => "record" in rule);

const UNIT_MS: { readonly [unit: string]: number } = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** Returns the rules with all durations divided by a factor, for a Prometheus with shorter scrape intervals. */
export function rulesFasterBy(factor: number): Rules {
  const shorter = (_: string, before: string, count: string, unit: string) =>
    `${before}${(Number(count) * (UNIT_MS[unit] as number)) / factor}ms`;
  const faster = (rule: Alert | Recorded): Alert | Recorded => ({
    ...rule,
    expr: rule.expr.replace(/(\[|offset )(\d+)([smhd])\b/g, shorter),
    ...("for" in rule && rule.for && { for: rule.for.replace(/()(\d+)([smhd])$/, shorter) }),
  });
  return { groups: groups.map(({ name, rules }) => ({ name, rules: rules.map(faster) })) };
}

interface Panel {
  readonly type: string;
  readonly title: string;
  readonly targets?: readonly { readonly expr: string; readonly legendFormat: string }[];
}

interface Dashboard {
  readonly panels: readonly Panel[];
  readonly templating: { readonly list: readonly { readonly name: string; readonly definition?: string }[] };
}

export const DASHBOARD = JSON.parse(readFileSync(`${ROOT}/deploy/grafana/dashboard.json`, "utf8")) as Dashboard;

/** Returns the dashboard's queries as Grafana sends them when the user has selected all instances. */
export function panelQueries(rateInterval: string) {
  return DASHBOARD.panels.flatMap(({ title, targets = [] }) =>
    targets.map(({ expr, legendFormat }) => ({
      title,
      legendFormat,
      expr: expr.replaceAll("$__rate_interval", rateInterval).replaceAll("$instance", ".*"),
    })),
  );
}
