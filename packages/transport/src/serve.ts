import { openPort, type Port, type PortOptions } from "./http/port.ts";
import { Router, type RouterOptions } from "./router.ts";

/** Limits on what clients may use, and for how long. */
export type Limits = Omit<PortOptions, keyof ListenOptions | "find" | "refuse" | "onError">;

/** What a server serves. */
export interface ServeOptions extends RouterOptions {
  readonly limits?: Limits;
  /** Called with unexpected errors. The client is told nothing about them. */
  readonly onError?: (error: unknown) => void;
}

/** Where a server listens. */
export type ListenOptions = Pick<PortOptions, "host" | "port" | "reusePort" | "tls" | "onConnectionError">;

/**
 * Serves Connect, gRPC, gRPC-Web and HTTP endpoints on one port of Node or Deno: HTTP/1.1 and HTTP/2, in cleartext or
 * over TLS.
 *
 * @throws the error of `listen`
 */
export function serveNode(
  { limits, onError, ...options }: ServeOptions,
  { host, port, reusePort, tls, onConnectionError }: ListenOptions,
): Promise<Port> {
  const { find, refuse } = new Router(options);
  return openPort({
    ...limits,
    find,
    refuse,
    onError: guarded(onError),
    host,
    port,
    reusePort,
    tls,
    onConnectionError,
  });
}

/** Drops what `onError` itself throws. It is called in event listeners, where an exception would end the process. */
function guarded(onError: ServeOptions["onError"]): ServeOptions["onError"] {
  return (
    onError &&
    ((error) => {
      try {
        onError(error);
      } catch {
        // There is nobody left to tell.
      }
    })
  );
}
