import type { HeaderRecord } from "./lean-headers.ts";
import type { Route, WireRequest, WireResponse } from "./wire.ts";

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
export async function exchangeFetch(request: Request, headers: HeaderRecord, route: Route): Promise<Response> {
  try {
    return await exchange(request, headers, route);
  } finally {
    route.end?.();
  }
}

async function exchange(request: Request, headers: HeaderRecord, route: Route): Promise<Response> {
  const body = await readBody(request.body, route);
  const wireRequest: WireRequest = {
    httpMethod: request.method,
    target: targetOf(request.url),
    headers,
    body,
    url: () => request.url,
    requestSignal: () => request.signal,
  };
  return responseOf(await route.serve(wireRequest), request.method);
}

async function readBody(stream: ReadableStream<Uint8Array> | null, route: Route): Promise<Uint8Array> {
  if (stream === null || !route.isTooLong) return new Uint8Array(0);
  const chunks: Uint8Array[] = [];
  let total = 0;
  // Leaving the loop cancels the stream: what is too long is not read to its end.
  for await (const chunk of stream) {
    chunks.push(chunk);
    total += chunk.byteLength;
    if (route.isTooLong(chunks[0] as Uint8Array, total)) break;
  }
  const [first] = chunks;
  return chunks.length === 1 && first ? first : Buffer.concat(chunks, total);
}

/** An answer as the fetch API has it. Its trailers are lost, for the API has none. */
function responseOf({ status, headers, body }: WireResponse, httpMethod: string): Response {
  const fields = new Headers();
  for (const [name, value] of Object.entries(headers)) {
    if (value === undefined) continue;
    for (const one of Array.isArray(value) ? value : [String(value)]) fields.append(name, one);
  }
  const hasBody = httpMethod !== "HEAD" && !WITHOUT_BODY.has(status);
  return new Response(hasBody ? (body as Uint8Array<ArrayBuffer>) : null, { status, headers: fields });
}
