import packageJson from "../../package.json" with { type: "json" };
import type { Config } from "../config/config.ts";
import { errorFields, type Logger } from "../observability/log.ts";
import type { Metrics } from "../observability/metrics.ts";
import { oncePer } from "../observability/once-per.ts";
import type { CollectorTls, OnLost } from "../observability/traces/collector.ts";
import type { Traces } from "../observability/traces/traces.ts";
import type { Lifecycle } from "./lifecycle.ts";
import { requireConnectPermission } from "./permissions.ts";

/** The minimum time between two warnings with the same cause, in milliseconds. */
const WARNING_INTERVAL_MS = 60_000;

/**
 * Opens the traces. If the settings contain no collector, returns undefined and does not load OpenTelemetry.
 *
 * @throws NotAllowed
 */
export async function openTraces(
  config: Config,
  { logger, metrics, lifecycle }: { logger: Logger; metrics: Metrics; lifecycle: Lifecycle },
): Promise<Traces | undefined> {
  const url = config.otlpTracesEndpoint ?? config.otlpEndpoint;
  if (url === undefined) return undefined;
  await requireConnectPermission(new URL(url));
  const { Traces } = await import("../observability/traces/traces.ts");
  const traces = new Traces({
    version: packageJson.version,
    tls: collectorTlsOf(config),
    onLost: lossReporter(logger, metrics.lostSpans()),
    onFault: (fault) => logger.warn({ cause: fault }, "OpenTelemetry cannot use one of its environment variables"),
  });
  lifecycle.onClose("traces", () => traces.close());
  return traces;
}

export function collectorTlsOf({ otlpCa, otlpCert, otlpKey }: Config): CollectorTls {
  return { ca: otlpCa, cert: otlpCert, key: otlpKey };
}

const LOST =
  "spans of traces are lost: ugs_spans_lost_total counts them; see docs/operations/incidents.md#usergroupsspanslost";

/**
 * Returns a function that counts lost spans. For each cause, the function logs at most one warning per
 * `WARNING_INTERVAL_MS`.
 */
export function lossReporter(logger: Pick<Logger, "warn">, lost: (cause: string, spans: number) => void): OnLost {
  const isDue = oncePer(WARNING_INTERVAL_MS);
  return (cause, spans, error) => {
    lost(cause, spans);
    if (isDue(cause)) logger.warn({ lost: cause, ...(error && errorFields(error)) }, LOST);
  };
}
