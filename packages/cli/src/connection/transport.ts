import { randomUUID } from "node:crypto";
import type { DescMethod } from "@bufbuild/protobuf";
import type { Interceptor, Transport } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-node";
import { isRepeatable, retrying, withRequestIds } from "@user-group-service/client";
import packageJson from "../../../../package.json" with { type: "json" };
import type { Connection } from "../settings.ts";
import { callFailure } from "./call-failure.ts";

/** The maximum number of attempts per call. The number is small because a person waits for the result. */
const MAX_TRIES = 4;

export interface TransportOptions {
  /** The token that each call sends. If undefined, calls send no token. */
  readonly token: string | undefined;
  /** Aborts the calls in flight. */
  readonly signal: AbortSignal;
  /** Whether to retry failed calls that are safe to repeat. Default: yes. */
  readonly isRetrying?: boolean;
  /**
   * Whether to send JSON. Default: no. Imports and exports send JSON, because protobuf-es drops a leading U+FEFF from
   * the strings of binary messages. Other calls send binary messages, because a JSON response from a wrong URL could
   * look like a response of the service.
   */
  readonly isJson?: boolean;
}

/**
 * Opens a Connect transport over HTTP/1.1, which every proxy forwards. A failed unary call throws a `Failure`. The
 * cause of the `Failure` is the `ConnectError`.
 */
export function openTransport(connection: Connection, options: TransportOptions): Transport {
  const { url, ca, cert, key, serverName, timeoutMs } = connection;
  const transport = createConnectTransport({
    baseUrl: url.href,
    httpVersion: "1.1",
    useBinaryFormat: options.isJson !== true,
    defaultTimeoutMs: timeoutMs,
    // The largest responses are pages of groups, with a few MiB at most.
    readMaxBytes: 64 * 1024 * 1024,
    nodeOptions: {
      ...(ca !== undefined && { ca }),
      ...(cert !== undefined && { cert, key }),
      ...(serverName !== undefined && { servername: serverName }),
    },
    interceptors: [
      withRequestIds(randomUUID),
      presenting(options),
      ...(options.isRetrying === false ? [] : [retrying({ maxTries: MAX_TRIES })]),
    ],
  });
  return {
    ...transport,
    unary: async (method, signal, timeoutMs, ...rest) => {
      try {
        return await transport.unary(method, signal, timeoutMs, ...rest);
      } catch (error) {
        throw callFailure(error, connection, {
          mayRepeat: isRepeatable(method),
          onlyReads: onlyReads(method),
          timeoutMs,
        });
      }
    },
  };
}

/** Returns whether a method only reads. GetUserGroup is not such a method, because it creates a missing group. */
function onlyReads({ name }: DescMethod): boolean {
  return /^(Export|Get|List|Lookup|Resolve)/.test(name) && name !== "GetUserGroup";
}

function presenting({ token, signal }: TransportOptions): Interceptor {
  return (next) => (request) => {
    request.header.set("user-agent", `ugs/${packageJson.version}`);
    if (token !== undefined) request.header.set("authorization", `Token ${token}`);
    return next({ ...request, signal: AbortSignal.any([request.signal, signal]) });
  };
}
