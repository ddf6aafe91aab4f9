import { type FetchServer, fetchDispatch } from "./http/fetch-dispatch.ts";
import type { ServeOptions } from "./node.ts";
import { Router } from "./router.ts";

/**
 * Serves Connect, gRPC-Web and endpoints by way of the fetch API, such as `deno serve` has it. gRPC is answered with an
 * error: it needs HTTP trailers, which the API lacks.
 */
export function serveFetch({ limits, onError, ...options }: ServeOptions): FetchServer {
  const { find, refuse } = new Router(options);
  return fetchDispatch({ ...limits, find, refuse, onError });
}
