import { universalServerRequestFromFetch, universalServerResponseToFetch } from "@connectrpc/connect/protocol";
import type { HeaderRecord, StreamRoute } from "../exchange.ts";
import { formatOf } from "../protocol/content-types.ts";
import { headersOf, recordOf } from "../protocol/record-headers.ts";
import { prepareStreamHeaders } from "../protocol/stream-headers.ts";
import { type DispatchOptions, exchangeContext } from "./dispatch.ts";
import { EndableBody } from "./endable-body.ts";
import { exchangeFetch, toFetchResponse } from "./fetch-io.ts";
import { OpenStreams } from "./open-streams.ts";
import { plainAddress } from "./peers.ts";

/** What the runtime knows about a request, as `Deno.serve` passes it. */
export interface FetchInfo {
  readonly remoteAddr?: { readonly hostname?: string };
}

/** How long draining waits for streams, in milliseconds. */
const UNREAD_STREAMS_MS = 5000;

/** A request handler of the fetch API. */
export type FetchHandler = (request: Request, info?: FetchInfo) => Promise<Response>;

/** A fetch handler that can be drained. */
export interface FetchServer {
  readonly fetch: FetchHandler;
  /**
   * Resolves once no request is in flight, and all streams have ended. Streams that have not after 5 s, because their
   * clients do not read them, are cut. New requests are still served.
   */
  readonly drain: () => Promise<void>;
}

/**
 * Dispatches each request of the fetch API to its route, as `dispatch` does for a port. gRPC gets an error: it needs
 * HTTP trailers, which the fetch API lacks.
 */
export function fetchDispatch(options: DispatchOptions): FetchServer {
  const inFlight = new Set<Promise<unknown>>();
  const bodies = new Set<EndableBody>();
  const track = (pending: Promise<unknown>) => {
    inFlight.add(pending);
    const done = () => inFlight.delete(pending);
    void pending.then(done, done);
  };
  const context = exchangeContext(options);
  const streams = new OpenStreams(options.streams);

  /** Serves a request by Connect's handler, whose response may be a stream. */
  const stream = async (route: StreamRoute, request: Request, headers: HeaderRecord): Promise<Response> => {
    let end = () => {};
    const leave = streams.enter(undefined, () => end());
    if (!leave) {
      const refused = options.refuse({ kind: "too-many-streams" }, headers, route.handler.method);
      return toFetchResponse(refused, request.method);
    }
    try {
      prepareStreamHeaders(headers, streams.lifetimeMs);
      const universal = { ...universalServerRequestFromFetch(request, {}), header: headersOf(headers) };
      const { handler, contextValues } = route;
      const response = universalServerResponseToFetch(await handler({ ...universal, contextValues }));
      if (response.body === null) {
        leave();
        return response;
      }
      const body = new EndableBody(response.body);
      end = () => body.end();
      bodies.add(body);
      track(
        body.ended.then(() => {
          bodies.delete(body);
          leave();
        }),
      );
      return new Response(body.readable, response);
    } catch (error) {
      leave();
      throw error;
    }
  };

  const serve: FetchHandler = async (request, info) => {
    const headers = recordOf(request.headers);
    if (formatOf(headers["content-type"]).protocol === "grpc") return grpcUnsupported();
    const { pathname, search } = new URL(request.url);
    const httpRequest = {
      httpMethod: request.method,
      target: pathname + search,
      headers,
      arrived: Date.now(),
      body: new Uint8Array(0),
      peerAddress: () => plainAddress(info?.remoteAddr?.hostname),
      url: () => request.url,
      requestSignal: () => request.signal,
    };
    const found = options.find(httpRequest);
    const route = found instanceof Promise ? await found : found;
    return "handler" in route ? stream(route, request, headers) : exchangeFetch(request, httpRequest, route, context);
  };

  return {
    fetch: (request, info) => {
      const response = serve(request, info).catch((error: unknown) => {
        // The client has disconnected, so nobody reads the response.
        if (request.signal.aborted) return new Response(null, { status: 499 });
        options.onError?.(error);
        return new Response(null, { status: 500 });
      });
      track(response);
      return response;
    },
    drain: async () => {
      const timer = setTimeout(() => {
        for (const body of bodies) body.end();
      }, UNREAD_STREAMS_MS);
      while (inFlight.size > 0) await Promise.allSettled(inFlight);
      clearTimeout(timer);
    },
  };
}

/** A gRPC error whose status is in the headers, where every gRPC client can read it. */
function grpcUnsupported(): Response {
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
