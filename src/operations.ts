import {
  acceptsEncoding,
  type Endpoint,
  type HeaderRecord,
  type HttpRequest,
  type HttpResponse,
  headerValue,
} from "@user-group-service/transport";
import { formatOf } from "./observability/exposition.ts";
import type { Metrics } from "./observability/metrics.ts";
import type { HealthParts } from "./rpc/health.ts";

/** What the endpoints for operators depend on. */
export interface OperationsParts extends HealthParts {
  readonly metrics: Pick<Metrics, "expose">;
}

/** `/healthz`, `/readyz` and `/metrics`. They need no API token. */
export function operations({ probe, isClosing, metrics }: OperationsParts) {
  return {
    health: endpoint(async () => text(200, "ok\n")),
    readiness: endpoint(async () => {
      if (isClosing()) return text(503, "shutting down\n");
      try {
        await probe.ping();
        return text(200, "ok\n");
      } catch {
        return text(503, "no change can be made\n");
      }
    }),
    exposition: endpoint(({ headers }) => exposed(headers, metrics)),
  };
}

function endpoint(serve: (request: HttpRequest) => Promise<HttpResponse>): Endpoint {
  return {
    methods: new Map([
      ["GET", { serve }],
      ["HEAD", { serve }],
    ]),
  };
}

async function exposed(headers: HeaderRecord, metrics: OperationsParts["metrics"]): Promise<HttpResponse> {
  const exposition = await metrics.expose(formatOf(headerValue(headers, "accept") ?? ""));
  if (!exposition) return text(503, "the metrics of all workers could not be collected\n");
  const answer = text(200, exposition.text, exposition.contentType);
  answer.headers["vary"] = "accept, accept-encoding";
  if (!acceptsEncoding(headers, "gzip")) return answer;
  answer.headers["content-encoding"] = "gzip";
  return { ...answer, body: await exposition.gzipped() };
}

function text(status: number, body: string, contentType = "text/plain; charset=utf-8"): HttpResponse {
  return { status, headers: { "content-type": contentType, "cache-control": "no-store" }, body };
}
