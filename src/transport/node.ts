import { type DispatchOptions, dispatch } from "./http/dispatch.ts";
import { openPort, type Port, type PortOptions } from "./http/port.ts";
import { Router, type RouterOptions } from "./router.ts";

/** Bounds of what callers may hold, and how long. */
export type Limits = Pick<DispatchOptions, "arrivalTimeoutMs" | "readTimeoutMs" | "streams"> &
  Omit<PortOptions, "host" | "port" | "tls" | "onError">;

/** What a server serves, and what it does about failures that nobody foresaw. */
export interface ServeOptions extends RouterOptions {
  readonly limits?: Limits;
  /** Hears of a failure that nobody foresaw; its caller is told nothing of it. */
  readonly onError?: (error: unknown) => void;
}

/** Where a server listens. */
export interface ListenOptions extends Pick<PortOptions, "host" | "port" | "tls"> {
  /** Hears of connections that the system refuses. */
  readonly onConnectionError?: (error: Error) => void;
}

/**
 * Serves Connect, gRPC, gRPC-Web and endpoints on one port of Node or Deno: HTTP/1.1 and HTTP/2, in the clear or over
 * TLS.
 *
 * @throws what listening throws
 */
export function serveNode(
  { limits, onError, ...options }: ServeOptions,
  { onConnectionError, ...listen }: ListenOptions,
): Promise<Port> {
  const { find, refuse } = new Router(options);
  const handlers = dispatch({ ...limits, find, refuse, onError });
  return openPort({ ...limits, ...listen, ...(onConnectionError && { onError: onConnectionError }) }, handlers);
}
