import type { HeaderRecord, HttpRequest, HttpResponse, Route } from "../exchange.ts";
import { REFUSAL_STATUS } from "../protocol/refusals.ts";
import { Pieces } from "./body.ts";
import type { GiveUpReason, Held, Holdings } from "./holdings.ts";
import { type ExchangeLimits, GIVEN_UP } from "./node-io.ts";

/** Answers that have no body by their status (https://fetch.spec.whatwg.org/#null-body-status). */
const WITHOUT_BODY: ReadonlySet<number> = new Set([101, 103, 204, 205, 304]);

/** Path and query of a request's URL. */
export function targetOf(url: string): string {
  const { pathname, search } = new URL(url);
  return pathname + search;
}

/** Fields as a record by lower-case name. */
export function recordOfFetch(headers: Headers): HeaderRecord {
  const record: HeaderRecord = {};
  headers.forEach((value, name) => {
    record[name] = value;
  });
  return record;
}

/**
 * Reads a request of the fetch API, where its route wants the body, has it served and makes the answer.
 *
 * @param headers those of the request
 * @throws when the caller goes away before the request is read, or what serving throws
 */
export async function exchangeFetch(
  request: Request,
  headers: HeaderRecord,
  route: Route,
  limits: Pick<ExchangeLimits, "bodies" | "refuse">,
): Promise<Response> {
  try {
    return await exchange(request, headers, route, limits);
  } finally {
    route.end?.();
  }
}

async function exchange(
  request: Request,
  headers: HeaderRecord,
  route: Route,
  limits: Pick<ExchangeLimits, "bodies" | "refuse">,
): Promise<Response> {
  const body = await readBody(request.body, route, limits.bodies);
  if (typeof body === "string") {
    const refusal = GIVEN_UP[body];
    const status = REFUSAL_STATUS[refusal.kind] ?? 400;
    return limits.refuse ? responseOf(limits.refuse(refusal, headers), request.method) : new Response(null, { status });
  }
  const httpRequest: HttpRequest = {
    httpMethod: request.method,
    target: targetOf(request.url),
    headers,
    body,
    url: () => request.url,
    requestSignal: () => request.signal,
  };
  return responseOf(await route.serve(httpRequest), request.method);
}

/** Reads a body, where its route wants it, or tells why it was given up. */
async function readBody(
  stream: ReadableStream<Uint8Array> | null,
  route: Route,
  bodies: Holdings,
): Promise<Uint8Array | GiveUpReason> {
  const pieces = new Pieces();
  if (stream === null || !route.isTooLong) return pieces.bytes();
  const reader = stream.getReader();
  // What is too long, or too late, is not read to its end.
  const stop = () => void reader.cancel().catch(() => {});
  let givenUp: GiveUpReason | undefined;
  const held: Held = {
    bytes: 0,
    since: 0,
    connection: undefined,
    giveUp: (reason) => {
      givenUp = reason;
      stop();
    },
  };
  bodies.add(held, 0);
  try {
    for (let kept = 0; ; ) {
      const { done, value } = await reader.read();
      if (done) break;
      pieces.add(value);
      if (route.isTooLong(pieces.head, pieces.length)) {
        stop();
        break;
      }
      bodies.grow(held, pieces.keptBytes - kept);
      kept = pieces.keptBytes;
    }
  } finally {
    bodies.remove(held);
  }
  return givenUp ?? pieces.bytes();
}

/** An answer as the fetch API has it. Its trailers are lost, for the API has none. */
export function responseOf({ status, headers, body }: HttpResponse, httpMethod: string): Response {
  const fields = new Headers();
  for (const [name, value] of Object.entries(headers)) {
    if (value === undefined) continue;
    for (const one of Array.isArray(value) ? value : [String(value)]) fields.append(name, one);
  }
  const hasBody = httpMethod !== "HEAD" && !WITHOUT_BODY.has(status);
  return new Response(hasBody ? (body as Uint8Array<ArrayBuffer>) : null, { status, headers: fields });
}
