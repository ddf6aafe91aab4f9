import type { HttpRequest, HttpResponse, Route } from "../exchange.ts";
import { headersOf } from "../protocol/record-headers.ts";
import { BodyBuffer } from "./body.ts";
import type { EvictionReason, MemoryBudget } from "./memory-budget.ts";
import type { ExchangeContext } from "./node-exchange.ts";

/** Statuses of responses without a body (https://fetch.spec.whatwg.org/#null-body-status). */
const WITHOUT_BODY: ReadonlySet<number> = new Set([101, 103, 204, 205, 304]);

/**
 * Reads a request body of the fetch API if its route wants it, serves the request and makes the response.
 *
 * @throws when the client disconnects before the body is read, and whatever `serve` throws
 */
export async function exchangeFetch(
  request: Request,
  httpRequest: HttpRequest,
  route: Route,
  context: FetchContext,
): Promise<Response> {
  try {
    const body = await readBody(request.body, route, context.bodies);
    if (typeof body === "string") {
      const refused = context.refuse(context.evictionRefusals[body], httpRequest.headers);
      return toFetchResponse(refused, request.method);
    }
    httpRequest.body = body;
    return toFetchResponse(await route.serve(httpRequest), request.method);
  } finally {
    route.end?.();
  }
}

/** The runtime itself limits unread responses and the rest of answered requests. */
type FetchContext = Pick<ExchangeContext, "bodies" | "refuse" | "evictionRefusals">;

/** Reads a body if its route wants it; returns why it was evicted otherwise. */
async function readBody(
  stream: ReadableStream<Uint8Array> | null,
  route: Route,
  bodies: MemoryBudget,
): Promise<Uint8Array | EvictionReason> {
  const buffer = new BodyBuffer();
  if (stream === null || !route.isTooLong) return buffer.bytes();
  const reader = stream.getReader();
  // A body that is too long or too late is not read to its end.
  const stop = () => void reader.cancel().catch(() => {});
  let evicted: EvictionReason | undefined;
  const evict = (reason: EvictionReason) => {
    evicted = reason;
    stop();
  };
  const holder = { connection: undefined, evict };
  bodies.add(holder, 0);
  try {
    for (let next = await reader.read(); !next.done; next = await reader.read()) {
      buffer.add(next.value);
      if (route.isTooLong(buffer.bytes())) {
        stop();
        break;
      }
      bodies.resize(holder, buffer.heldBytes);
    }
  } finally {
    bodies.remove(holder);
  }
  return evicted ?? buffer.bytes();
}

/** Converts a response to one of the fetch API. Trailers are lost, because the API has none. */
export function toFetchResponse({ status, headers, body }: HttpResponse, httpMethod: string): Response {
  const hasBody = httpMethod !== "HEAD" && !WITHOUT_BODY.has(status);
  return new Response(hasBody ? (body as Uint8Array<ArrayBuffer>) : null, { status, headers: headersOf(headers) });
}
