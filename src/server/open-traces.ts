import type { CollectorTls, OnLost, Traces } from "@user-group-service/traces";
import packageJson from "../../package.json" with { type: "json" };
import type { Config } from "../config/config.ts";
import { errorFields, type Logger } from "../observability/log.ts";
import type { Metrics } from "../observability/metrics.ts";
import type { Lifecycle } from "./lifecycle.ts";
import { requireConnectPermission } from "./permissions.ts";

/** How often it is said that spans are lost by one cause, in milliseconds. */
const WARNING_INTERVAL_MS = 60_000;

/** Opens the traces; undefined without a collector, and nothing of them is loaded. @throws NotAllowed */
export async function openTraces(
  config: Config,
  { logger, metrics, lifecycle }: { logger: Logger; metrics: Metrics; lifecycle: Lifecycle },
): Promise<Traces | undefined> {
  const { otlpEndpoint, otlpTracesEndpoint = otlpEndpoint && `${otlpEndpoint.replace(/\/$/, "")}/v1/traces` } = config;
  if (otlpTracesEndpoint === undefined) return undefined;
  await requireConnectPermission(new URL(otlpTracesEndpoint));
  const onLost = tellerOfLosses(logger, metrics.lostSpans());
  const traces = await import("@user-group-service/traces");
  const { otlpHeaders, serviceName, resourceAttributes, tracesSampler, tracesRatio } = config;
  const opened = traces.openTraces(
    {
      url: otlpTracesEndpoint,
      headers: otlpHeaders,
      tls: collectorTlsOf(config),
      resource: {
        "service.name": "user-group-service",
        ...resourceAttributes,
        ...(serviceName && { "service.name": serviceName }),
      },
      version: packageJson.version,
      sampler: tracesSampler,
      ratio: tracesRatio,
    },
    onLost,
  );
  lifecycle.onClose("traces", () => opened.close());
  return opened;
}

/** The certificates of the way to the collector. */
export function collectorTlsOf({ otlpCa, otlpCert, otlpKey }: Config): CollectorTls {
  return { ca: otlpCa, cert: otlpCert, key: otlpKey };
}

const LOST =
  "spans of traces are lost: ugs_spans_lost_total counts them; see docs/operations/incidents.md#usergroupsspanslost";

/** Makes what counts lost spans and warns of them, for each cause from time to time: what strangers cause hides no other. */
export function tellerOfLosses(logger: Pick<Logger, "warn">, lost: (cause: string, spans: number) => void): OnLost {
  const warnedAt = new Map<string, number>();
  return (cause, spans, error) => {
    lost(cause, spans);
    const now = performance.now();
    if (now - (warnedAt.get(cause) ?? Number.NEGATIVE_INFINITY) < WARNING_INTERVAL_MS) return;
    warnedAt.set(cause, now);
    logger.warn({ lost: cause, ...(error && errorFields(error)) }, LOST);
  };
}
