import { createServer, type Server as HttpServer } from "node:http";
import { createServer as createHttp2Server, type ServerHttp2Session } from "node:http2";
import { createServer as createSecureServer, Server as SecureServer } from "node:https";
import type { AddressInfo, ListenOptions as NetListenOptions, Socket } from "node:net";
import type { TLSSocket } from "node:tls";
import {
  BODY_BYTES,
  DEFAULT_LIMITS,
  type Limits,
  MAX_HEADER_BYTES,
  MAX_HTTP2_STREAMS,
  RESPONSE_BYTES,
  requestTimeoutMs,
  SESSION_MEMORY_MB,
} from "../limits.ts";
import { Router, type RouterOptions } from "../router.ts";
import { ClientBudget, UNIT_BYTES } from "./client-budget.ts";
import { Connections, Http1Connection } from "./connections.ts";
import { patchDenoStreamLeak } from "./deno-stream-leak.ts";
import { http1Listener } from "./http1.ts";
import { http2Listener } from "./http2.ts";
import { superviseSession } from "./http2-sessions.ts";
import { type RequestContext, type RequestHandlers, Turn } from "./server-request.ts";

/** The certificate of a port and its key, in PEM. */
export interface Certificates {
  readonly cert: string;
  readonly key: string;
  /** The CAs of client certificates; undefined: clients need no certificate. */
  readonly clientCa: string | undefined;
}

/** Where a port listens. */
export interface ListenOptions {
  readonly host: string;
  /** 0 picks a free port. */
  readonly port: number;
  /** Whether other processes of the user may listen on the port as well, where the runtime can. Default: no. */
  readonly reusePort?: boolean | undefined;
  /** Certificates in PEM; undefined: HTTP/1.1 and HTTP/2 in cleartext. */
  readonly tls?: Certificates | undefined;
  /** Called when the system cannot accept a connection. */
  readonly onConnectionError?: ((error: Error) => void) | undefined;
}

/** What a port serves, where it listens, and its limits. */
export interface PortOptions extends RequestHandlers, ListenOptions {
  readonly limits?: Partial<Limits> | undefined;
}

/** A listening port. */
export interface NodeServer {
  readonly url: string;
  /**
   * Stops accepting connections. Resolves when the requests in flight are answered and all connections are closed.
   *
   * @param quietMs how long an HTTP/1.1 connection is silent before it is closed without a response that announces it,
   * in milliseconds. Closed too early, it may lose a request that is on its way. Default 1000
   */
  drain(quietMs?: number): Promise<void>;
  /** Destroys all connections. */
  destroy(): void;
  /**
   * Has connections that begin from now on use other certificates; those that are open stay as they are. Whether clients need
   * a certificate does not change.
   *
   * @throws TypeError on a port without TLS; the error of node:tls, and nothing has changed
   */
  setCertificates(tls: Certificates): void;
}

/** The connection preface of HTTP/2 (RFC 9113, 3.4). */
const PREFACE = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");

/**
 * How many connections may wait to be accepted; the system may allow fewer. With Node's 511, the system resets some of
 * those that a proxy opens at once, one for each call.
 */
const BACKLOG = 4096;

/** How long an HTTP/1.1 connection is silent before `drain` closes it, in milliseconds. */
const QUIET_MS = 1000;

/** What one connection may use. */
const HTTP2_OPTIONS = {
  settings: { maxConcurrentStreams: MAX_HTTP2_STREAMS, maxHeaderListSize: MAX_HEADER_BYTES },
  maxSettings: 16,
  maxSessionMemory: SESSION_MEMORY_MB,
  // By default node:http2 ends a connection, with all of its calls, once it has refused 100 streams.
  maxSessionRejectedStreams: 2 ** 31 - 1,
};
const HTTP1_OPTIONS = {
  maxHeaderSize: MAX_HEADER_BYTES,
  keepAliveTimeout: 75_000,
  /** How often node:http checks the timeouts, in milliseconds. */
  connectionsCheckingInterval: 5000,
  // `http1Listener` checks it. Of two, node:http would drop the second.
  requireHostHeader: false,
  joinDuplicateHeaders: true,
};

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
export function serveNode({ limits, onError, ...options }: ServeOptions, listen: ListenOptions): Promise<NodeServer> {
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

/**
 * Listens on one port for HTTP/1.1 and HTTP/2, over TLS when there is a certificate.
 *
 * An HTTP/1.1 server listens. It hands HTTP/2 connections to an HTTP/2 server: those that begin with the HTTP/2 preface
 * or, over TLS, those that negotiated `h2` by ALPN. It has to be the HTTP/1.1 server that listens, because on Deno such
 * a server drops connections of another listener after one request. And node:http2's own `allowHTTP1` ignores the
 * limits of HTTP/1.1.
 */
export async function openPort(options: PortOptions): Promise<NodeServer> {
  const isSet = ([, value]: [name: string, value: unknown]) => value !== undefined;
  const limits: Limits = {
    ...DEFAULT_LIMITS,
    ...Object.fromEntries(Object.entries(options.limits ?? {}).filter(isSet)),
  };
  const { find, refuse, onError } = options;
  const context: RequestContext = {
    find,
    refuse,
    onError,
    limits,
    bodies: new ClientBudget(BODY_BYTES / UNIT_BYTES),
    responses: new ClientBudget(RESPONSE_BYTES["Deno" in globalThis ? "deno" : "node"] / UNIT_BYTES),
    lingering: new ClientBudget(limits.streams.max),
    turn: new Turn(),
  };
  const connections = new Connections(limits);
  const server = listener(options.tls, limits);
  server.on("request", http1Listener(context, "none"));
  server.on("checkContinue", http1Listener(context, "continue"));
  server.on("checkExpectation", http1Listener(context, "unknown"));
  // What node:http itself refuses.
  server.on("clientError", (error, socket: Socket) => {
    try {
      Http1Connection.of(socket).onClientError(error, context);
    } catch (failure) {
      socket.destroy();
      onError?.(failure);
    }
  });
  // It does not listen, but is handed connections.
  const http2 = createHttp2Server(HTTP2_OPTIONS);
  http2.once("stream", patchDenoStreamLeak);
  http2.on("stream", http2Listener(context));
  http2.on("sessionError", () => {});
  let opened: ServerHttp2Session | undefined;
  http2.on("session", (session: ServerHttp2Session) => {
    session.on("error", () => {});
    opened = session;
  });
  const serveHttp1 = detachListeners(server, options.tls ? "secureConnection" : "connection");
  const serve = (socket: Socket, isHttp2: boolean) => {
    if (socket.destroyed) return;
    if (!isHttp2) {
      connections.identify(socket);
      serveHttp1(socket);
      if (options.tls) readAsStream(socket);
      return;
    }
    // Sockets of an HTTP/1.1 server allow half-open connections, which would make an HTTP/2 session outlive its client.
    socket.allowHalfOpen = false;
    opened = undefined;
    http2.emit("connection", socket);
    if (!opened) return;
    superviseSession(opened, socket, limits);
    connections.identify(socket, opened);
  };
  const start = options.tls
    ? detachListeners(server, "connection")
    : (socket: Socket) => sniffProtocol(socket, limits.firstByteTimeoutMs, (isHttp2) => serve(socket, isHttp2));
  if (options.tls) server.on("secureConnection", (socket: TLSSocket) => serve(socket, socket.alpnProtocol === "h2"));
  server.on("connection", (socket: Socket) => {
    if (connections.accept(socket)) start(socket);
  });

  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    const { host, port, reusePort = false } = options;
    // The types of Node 20 do not have `reusePort`.
    server.listen({ host, port, reusePort, backlog: BACKLOG } as NetListenOptions, () => {
      server.off("error", reject);
      // A connection that cannot be accepted, for lack of file descriptors, must not end the process.
      server.on("error", (error) => options.onConnectionError?.(error));
      resolve();
    });
  });
  return {
    url: urlOf(server.address() as AddressInfo, options.tls !== undefined),
    drain: (quietMs = QUIET_MS) =>
      new Promise((resolve) => {
        // It would close connections that are idle for the moment, whose next request may be on its way.
        server.closeIdleConnections = () => {};
        server.close(() => {
          stopLooking();
          resolve();
        });
        const stopLooking = connections.drain(quietMs);
      }),
    destroy: () => connections.destroy(),
    setCertificates(tls) {
      if (!(server instanceof SecureServer)) throw new TypeError("the port has no TLS");
      server.setSecureContext(secureContextOf(tls));
    },
  };
}

/** Creates the HTTP/1.1 server that listens. */
function listener(tls: ListenOptions["tls"], limits: Limits): HttpServer {
  const { headerTimeoutMs: headersTimeout } = limits;
  const options = { ...HTTP1_OPTIONS, headersTimeout, requestTimeout: requestTimeoutMs(limits) };
  const server = tls
    ? createSecureServer({
        ...options,
        ALPNProtocols: ["h2", "http/1.1"],
        handshakeTimeout: limits.firstByteTimeoutMs,
        ...secureContextOf(tls),
        ...(tls.clientCa !== undefined && { requestCert: true, rejectUnauthorized: true }),
      })
    : createServer(options);
  // By default node:http answers a failed handshake like a malformed request.
  server.removeAllListeners("tlsClientError").on("tlsClientError", (_error, socket: Socket) => socket.destroy());
  // The bytes of a header are limited. By default, node:http would drop fields above a number without a word.
  server.maxHeadersCount = 0;
  return server;
}

function secureContextOf({ cert, key, clientCa }: Certificates) {
  return { cert, key, ...(clientCa !== undefined && { ca: clientCa }) };
}

/** Removes the listeners of an event, and returns a function that calls them. */
function detachListeners(server: HttpServer, event: "connection" | "secureConnection"): (socket: Socket) => void {
  const taken = server.listeners(event) as ((socket: Socket) => void)[];
  server.removeAllListeners(event);
  return (socket) => {
    for (const listener of taken) listener.call(server, socket);
  };
}

/**
 * Makes node:http read a TLS connection as a stream. By default its parser takes decrypted bytes directly from the
 * socket's handle. Then a request that arrives behind a response that is still being written pauses the parser, but not
 * the handle, and the request's further TLS records break the connection with "Parse Error: Paused".
 */
function readAsStream(socket: Socket): void {
  // With another listener, node:http stops reading from the handle.
  socket.on("data", () => {});
}

/** Tells HTTP/2 from HTTP/1.1 by the first bytes of a connection, and puts the bytes back. */
function sniffProtocol(socket: Socket, timeoutMs: number, decide: (isHttp2: boolean) => void): void {
  let seen: Buffer = Buffer.alloc(0);
  const giveUp = () => socket.destroy();
  const timer = setTimeout(giveUp, timeoutMs);
  const stop = () => {
    clearTimeout(timer);
    socket.off("readable", onReadable);
    socket.off("close", stop);
    socket.off("end", giveUp);
  };
  const onReadable = () => {
    for (let chunk = socket.read(); chunk !== null; chunk = socket.read()) {
      seen = seen.length === 0 ? chunk : Buffer.concat([seen, chunk]);
      const length = Math.min(seen.length, PREFACE.length);
      const isHttp2 = seen.subarray(0, length).equals(PREFACE.subarray(0, length));
      if (isHttp2 && length < PREFACE.length) continue;
      stop();
      socket.unshift(seen);
      decide(isHttp2);
      return;
    }
  };
  socket.on("readable", onReadable);
  socket.once("close", stop);
  socket.once("end", giveUp);
}

/** The URL of a listening address. */
function urlOf({ address, port }: Pick<AddressInfo, "address" | "port">, secure: boolean): string {
  const host = address.includes(":") ? `[${address}]` : address;
  return `${secure ? "https" : "http"}://${host}:${port}`;
}
