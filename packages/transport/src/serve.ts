import { type ListenOptions, openPort, type Port } from "./http/port.ts";
import type { Limits } from "./limits.ts";
import { Router, type RouterOptions } from "./router.ts";

/** What a server serves. */
export interface ServeOptions extends RouterOptions {
  /** What clients may use, and for how long. */
  readonly limits?: Partial<Limits>;
  /** Called with unexpected errors. The client is told nothing about them. */
  readonly onError?: (error: unknown) => void;
}

/**
 * Serves Connect, gRPC, gRPC-Web and HTTP endpoints on one port of Node or Deno: HTTP/1.1 and HTTP/2, in cleartext or
 * over TLS.
 *
 * @throws the error of `listen`
 */
export function serveNode({ limits, onError, ...options }: ServeOptions, listen: ListenOptions): Promise<Port> {
  const { find, refuse } = new Router(options);
  const report = (error: unknown) => {
    try {
      onError?.(error);
    } catch {
      // Errors are reported in event listeners, where an exception would end the process.
    }
  };
  return openPort({ ...listen, find, refuse, onError: report, limits });
}
