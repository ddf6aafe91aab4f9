import { randomUUID } from "node:crypto";
import type { Interceptor, Transport } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-node";
import { retrying, withRequestIds } from "@user-group-service/client";
import packageJson from "../../../../package.json" with { type: "json" };
import type { Connection } from "../settings.ts";

/** How often a call is tried at most: a person waits for the failure. */
const MAX_TRIES = 4;

/** What the calls of a run have in common. */
export interface TransportOptions {
  /** The token of every call; undefined: calls have none. */
  readonly token: string | undefined;
  /** Aborts the calls under way. */
  readonly signal: AbortSignal;
  /** Whether to try again what failed and may be repeated. Default: yes. */
  readonly isRetrying?: boolean;
  /** Whether messages are JSON. In binary messages protobuf-es loses U+FEFF at the beginning of texts. Default: no. */
  readonly isJson?: boolean;
}

/** Calls a service by Connect over HTTP/1.1, which passes every proxy. */
export function openTransport(connection: Connection, options: TransportOptions): Transport {
  const { url, ca, cert, key, serverName, timeoutMs } = connection;
  return createConnectTransport({
    baseUrl: url.href,
    httpVersion: "1.1",
    useBinaryFormat: options.isJson !== true,
    defaultTimeoutMs: timeoutMs,
    // Answers are shown to a person or kept in memory: a page of groups has a few MiB at most.
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
}

/** Adds the token to every call, and aborts it when the run ends. */
function presenting({ token, signal }: TransportOptions): Interceptor {
  return (next) => (request) => {
    request.header.set("user-agent", `ugs/${packageJson.version}`);
    if (token !== undefined) request.header.set("authorization", `Token ${token}`);
    return next({ ...request, signal: AbortSignal.any([request.signal, signal]) });
  };
}
