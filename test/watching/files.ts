import { readFileSync } from "node:fs";
import { ROOT } from "@user-group-service/testing/process";
import { parse } from "yaml";

/** The alerts, as Prometheus takes them. */
export const RULES_FILE = `${ROOT}/deploy/prometheus/alerts.yaml`;

/** The job that rules and dashboard look for. */
export const JOB = "user-group-service";

/** An alert. */
export interface Alert {
  readonly alert: string;
  readonly expr: string;
  readonly labels: { readonly severity: string };
  readonly annotations: { readonly summary: string; readonly description: string; readonly runbook_url: string };
}

/** A series that is recorded for alerts. */
export interface Recorded {
  readonly record: string;
  readonly expr: string;
}

const { groups } = parse(readFileSync(RULES_FILE, "utf8")) as { groups: { rules: (Alert | Recorded)[] }[] };
const rules = groups.flatMap((group) => group.rules);

export const ALERTS: readonly Alert[] = rules.filter((rule) => "alert" in rule);
export const RECORDED: readonly Recorded[] = rules.filter((rule) => "record" in rule);

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

/** The queries of the dashboard as Grafana sends them while all instances are chosen. */
export function panelQueries(rateInterval: string) {
  return DASHBOARD.panels.flatMap(({ title, targets = [] }) =>
    targets.map(({ expr, legendFormat }) => ({
      title,
      legendFormat,
      expr: expr.replaceAll("$__rate_interval", rateInterval).replaceAll("$instance", ".*"),
    })),
  );
}
