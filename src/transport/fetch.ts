import { type FetchServer, fetchDispatch } from "./http/fetch-dispatch.ts";
import type { ServeOptions } from "./node.ts";
import { Router } from "./router.ts";

/**
 * Serves Connect, gRPC-Web and HTTP endpoints through the fetch API, for example with `deno serve`. gRPC gets an error:
 * it needs HTTP trailers, which the API lacks.
 */
export function serveFetch({ limits, onError, ...options }: ServeOptions): FetchServer {
  const { find, refuse } = new Router(options);
  return fetchDispatch({ ...limits, find, refuse, onError });
}
