import { Code, type ConnectError } from "@connectrpc/connect";
import type { StoreProbe } from "../domain/store.ts";
import { callError } from "../rpc/errors.ts";
import type { RestResponse } from "./errors.ts";

/** What the endpoints for operators are made of. */
export interface OperationsParts {
  readonly probe: StoreProbe;
  /** Whether the process is about to end. */
  readonly isClosing: () => boolean;
  /** The metrics in the format that an `Accept` field asks for; undefined when not all of them can be had. */
  readonly metrics: (accept: string | undefined) => Promise<
    | {
        readonly contentType: string;
        readonly text: string;
        readonly gzipped: () => Promise<Uint8Array>;
      }
    | undefined
  >;
}

type Endpoint = (request: { readonly headers: RestResponse["headers"] }) => Promise<RestResponse>;

/** `/healthz`, `/readyz` and `/metrics`, by path. They need no API token. */
export function operations({ probe, isClosing, metrics }: OperationsParts): ReadonlyMap<string, Endpoint> {
  return new Map<string, Endpoint>([
    ["/healthz", async () => text(200, "ok\n")],
    [
      "/readyz",
      async () => {
        if (isClosing()) return text(503, "shutting down\n");
        try {
          await probe.ping();
          return text(200, "ok\n");
        } catch {
          return text(503, "no change can be made\n");
        }
      },
    ],
    ["/metrics", ({ headers }) => exposed(headers, metrics)],
  ]);
}

async function exposed(headers: RestResponse["headers"], metrics: OperationsParts["metrics"]): Promise<RestResponse> {
  const exposition = await metrics(fieldOf(headers, "accept"));
  if (!exposition) return text(503, "the metrics of all workers cannot be had\n");
  const answer = text(200, exposition.text, exposition.contentType);
  answer.headers["vary"] = "accept, accept-encoding";
  if (!takesGzip(fieldOf(headers, "accept-encoding"))) return answer;
  const body = await exposition.gzipped();
  answer.headers["content-encoding"] = "gzip";
  answer.headers["content-length"] = String(body.byteLength);
  return { ...answer, body };
}

function fieldOf(headers: RestResponse["headers"], name: string): string | undefined {
  const value = headers[name];
  return value === undefined ? undefined : String(value);
}

/** Whether the endpoints for operators have an HTTP method. */
export function isOperationMethod(httpMethod: string): boolean {
  return httpMethod === "GET" || httpMethod === "HEAD";
}

/** What a caller is told of another HTTP method. */
export function operationNotAllowed(): ConnectError {
  const error = callError(Code.Unimplemented, "use GET or HEAD here", { reason: "METHOD_NOT_ALLOWED" });
  error.metadata.set("allow", "GET, HEAD");
  return error;
}

function text(status: number, content: string, contentType = "text/plain; charset=utf-8"): RestResponse {
  const body = Buffer.from(content);
  return {
    status,
    headers: { "content-type": contentType, "content-length": String(body.byteLength), "cache-control": "no-store" },
    body,
  };
}

/** Whether an `Accept-Encoding` field takes gzip. */
function takesGzip(acceptEncoding: string | undefined): boolean {
  return (acceptEncoding ?? "")
    .split(",")
    .some((item) => /^ *gzip *(?:;|$)/i.test(item) && !/; *q=0(?:\.0*)? *$/i.test(item));
}
