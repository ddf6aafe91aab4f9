import { universalServerRequestFromFetch, universalServerResponseToFetch } from "@connectrpc/connect/protocol";
import type { HeaderRecord, StreamRoute } from "../exchange.ts";
import { formatOf } from "../protocol/content-types.ts";
import { capDeadline } from "../protocol/deadlines.ts";
import { cutQuotedFields } from "../protocol/quoted-fields.ts";
import { type DispatchOptions, exchangeLimits } from "./dispatch.ts";
import { exchangeFetch, recordOfFetch, responseOf, targetOf } from "./fetch-io.ts";
import { OpenStreams } from "./open-streams.ts";

/** What serves the requests of the fetch API. */
export type FetchHandler = (request: Request) => Promise<Response>;

/** What serves requests, and what is under way. */
export interface FetchServer {
  readonly fetch: FetchHandler;
  /** Resolves once nothing is under way any more; new requests are served all the same. */
  readonly drain: () => Promise<void>;
}

/**
 * Sends each request of the fetch API to what serves it, as `dispatch` does for
 * a port. gRPC is answered with an error: it needs HTTP trailers, which the
 * fetch API lacks.
 */
export function fetchDispatch(options: DispatchOptions): FetchServer {
  const underWay = new Set<Promise<unknown>>();
  const limits = exchangeLimits(options);
  const streams = new OpenStreams(options.streams);

  /** Has one of Connect's handlers serve a request, whose answer may be a stream. */
  const stream = async (route: StreamRoute, request: Request, headers: HeaderRecord): Promise<Response> => {
    const timeIsUp = new AbortController();
    const open = streams.enter(undefined, () => timeIsUp.abort());
    if (!open) {
      const refused = options.refuse?.({ kind: "too-many-streams" }, headers);
      return refused ? responseOf(refused, request.method) : new Response(null, { status: 429 });
    }
    streams.limitDeadline(headers);
    try {
      const response = await handle(route, request, headers);
      if (response.body === null) {
        open.leave();
        return response;
      }
      const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>();
      response.body
        .pipeTo(writable, { signal: timeIsUp.signal })
        .catch(() => {})
        .finally(open.leave);
      return new Response(readable, response);
    } catch (error) {
      open.leave();
      throw error;
    }
  };

  const serve: FetchHandler = async (request) => {
    const headers = recordOfFetch(request.headers);
    if (formatOf(headers["content-type"]).protocol === "grpc") return noGrpc();
    const found = options.find(request.method, targetOf(request.url), headers);
    const route = found instanceof Promise ? await found : found;
    return "handler" in route ? stream(route, request, headers) : exchangeFetch(request, headers, route, limits);
  };

  return {
    fetch: (request) => {
      const answer = serve(request)
        .catch((error: unknown) => {
          // Nobody is left to read an answer.
          if (request.signal.aborted) return new Response(null, { status: 499 });
          options.onError?.(error);
          return new Response(null, { status: 500 });
        })
        .finally(() => underWay.delete(answer));
      underWay.add(answer);
      return answer;
    },
    drain: async () => {
      while (underWay.size > 0) await Promise.all(underWay);
    },
  };
}

async function handle(route: StreamRoute, request: Request, headers: HeaderRecord): Promise<Response> {
  const universal = universalServerRequestFromFetch(request, {});
  cutQuotedFields(headers);
  capDeadline(headers);
  const header = new Headers(headers as { readonly [name: string]: string });
  const { handler, contextValues, responseHeaders } = route;
  const response = universalServerResponseToFetch(await handler({ ...universal, header, contextValues }));
  for (const [name, value] of Object.entries(responseHeaders ?? {})) {
    if (value !== undefined) response.headers.set(name, String(value));
  }
  return response;
}

/** An answer that a gRPC client understands, for its status is in the header. */
function noGrpc(): Response {
  const message = "gRPC needs HTTP trailers, which this server cannot send; use gRPC-Web or Connect";
  return new Response(null, {
    status: 200,
    headers: {
      "content-type": "application/grpc",
      "grpc-status": "12",
      "grpc-message": encodeURIComponent(message).replaceAll("%20", " "),
    },
  });
}
