import { randomUUID } from "node:crypto";
import { ConnectError, type Interceptor, type Transport } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-node";
import { REQUEST_ID_HEADER, retrying } from "@user-group-service/client";
import packageJson from "../../../../package.json" with { type: "json" };
import type { Connection } from "../settings.ts";

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
    interceptors: [presenting(options), ...(options.isRetrying === false ? [] : [retrying])],
  });
}

/** Adds the token and an id to every call, and aborts it when the run ends. */
function presenting({ token, signal }: TransportOptions): Interceptor {
  return (next) => async (request) => {
    const id = randomUUID();
    request.header.set(REQUEST_ID_HEADER, id);
    request.header.set("user-agent", `ugs/${packageJson.version}`);
    if (token !== undefined) request.header.set("authorization", `Token ${token}`);
    try {
      return await next({ ...request, signal: AbortSignal.any([request.signal, signal]) });
    } catch (error) {
      const failure = ConnectError.from(error);
      // The answer has the id that the service took; without an answer, the one that was sent may be in its log.
      if (!failure.metadata.has(REQUEST_ID_HEADER)) failure.metadata.set(REQUEST_ID_HEADER, id);
      throw failure;
    }
  };
}
