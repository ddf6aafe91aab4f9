import type { OnLost, Traces } from "@user-group-service/traces";
import packageJson from "../package.json" with { type: "json" };
import type { Config } from "./config/config.ts";
import type { Lifecycle } from "./lifecycle.ts";
import { errorFields, type Logger } from "./observability/log.ts";
import type { Metrics } from "./observability/metrics.ts";
import { requireConnectPermission } from "./permissions.ts";

/** How often it is said that spans are lost, in milliseconds. */
const WARNING_INTERVAL_MS = 60_000;

/** Opens the traces; undefined without a collector, and nothing of them is loaded. @throws NotAllowed */
export async function openTraces(
  config: Config,
  { logger, metrics, lifecycle }: { logger: Logger; metrics: Metrics; lifecycle: Lifecycle },
): Promise<Traces | undefined> {
  const { otlpEndpoint, otlpTracesEndpoint = otlpEndpoint && `${otlpEndpoint.replace(/\/$/, "")}/v1/traces` } = config;
  if (otlpTracesEndpoint === undefined) return undefined;
  await requireConnectPermission(new URL(otlpTracesEndpoint));
  const lost = metrics.lostSpans();
  let warnedAt = Number.NEGATIVE_INFINITY;
  const onLost: OnLost = (cause, spans, error) => {
    lost(cause, spans);
    if (performance.now() - warnedAt < WARNING_INTERVAL_MS) return;
    warnedAt = performance.now();
    logger.warn({ lost: cause, ...(error && errorFields(error)) }, LOST);
  };
  const traces = await import("@user-group-service/traces");
  const { otlpHeaders, serviceName, resourceAttributes, tracesSampler, tracesRatio } = config;
  const opened = traces.openTraces(
    {
      url: otlpTracesEndpoint,
      headers: otlpHeaders,
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

const LOST =
  "spans of traces are lost: ugs_spans_lost_total counts them; see Traces in docs/operations.md, and check the collector where its failure is told";
