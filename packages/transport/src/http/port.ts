import { createServer, type Server as HttpServer } from "node:http";
import { createServer as createSecureServer, Server as SecureServer } from "node:https";
import type { AddressInfo, ListenOptions as NetListenOptions, Socket } from "node:net";
import type { TLSSocket } from "node:tls";
import {
  BODY_BYTES,
  DEFAULT_LIMITS,
  type Limits,
  MAX_HEADER_BYTES,
  RESPONSE_BYTES,
  requestTimeoutMs,
} from "../limits.ts";
import { Router, type RouterOptions } from "../router.ts";
import { Arrivals } from "./arrivals.ts";
import { ClientBudget, UNIT_BYTES } from "./client-budget.ts";
import { Connections, Http1Connection } from "./connections.ts";
import { DelayedCharges } from "./delayed-charges.ts";
import { patchDenoStreamLeak } from "./deno-stream-leak.ts";
import { http1Listener } from "./http1.ts";
import { http2Listener } from "./http2.ts";
import { Http2Connection } from "./http2-connection.ts";
import { plainAddress, type RequestContext, type RequestHandlers } from "./server-request.ts";

/** The certificate and the private key of a port, in PEM. */
export interface Certificates {
  readonly cert: string;
  readonly key: string;
  /** The CA certificates that verify client certificates. Undefined if clients need no certificate. */
  readonly clientCa: string | undefined;
}

export interface ListenOptions {
  readonly host: string;
  /** The port number; 0 picks a free port. */
  readonly port: number;
  /**
   * Whether other processes of the same user may listen on this port. Has an effect only if the runtime supports port
   * sharing. Default: false.
   */
  readonly reusePort?: boolean | undefined;
  /** The certificates for TLS. Omit them for cleartext. */
  readonly tls?: Certificates | undefined;
  /** Called if the system cannot accept a connection. */
  readonly onConnectionError?: ((error: Error) => void) | undefined;
}

export interface PortOptions extends RequestHandlers, ListenOptions {
  readonly limits?: Partial<Limits> | undefined;
}

export interface NodeServer {
  readonly url: string;
  /**
   * Stops accepting connections. Resolves when all requests in flight are answered and all connections are closed.
   *
   * @param quietMs the time in milliseconds after which an HTTP/1.1 connection is closed if it has no request in flight
   * and receives no data. If the time is too short, a request in transit may be lost. Default: 1000
   */
  drain(quietMs?: number): Promise<void>;
  destroy(): void;
  /**
   * Sets the certificates of new connections. Open connections keep their certificates. Does not change whether clients
   * need a certificate.
   *
   * @throws TypeError if the port has no TLS. If the certificates are invalid, throws the error of node:tls, and the
   * port keeps its previous certificates
   */
  setCertificates(tls: Certificates): void;
}

/** The connection preface of HTTP/2 (RFC 9113, 3.4). */
const PREFACE = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");

/**
 * The maximum number of connections that wait to be accepted. The system may allow fewer. A proxy may open a connection
 * for each call. With Node's default of 511, the system would reset some of these connections.
 */
const BACKLOG = 4096;

const HTTP1_OPTIONS = {
  maxHeaderSize: MAX_HEADER_BYTES,
  keepAliveTimeout: 75_000,
  /** The interval at which node:http checks timeouts, in milliseconds. */
  connectionsCheckingInterval: 5000,
  // `http1Listener` checks all `Host` headers. node:http would ignore a second `Host` header.
  requireHostHeader: false,
  joinDuplicateHeaders: true,
};

export interface ServeOptions extends RouterOptions {
  readonly limits?: Partial<Limits>;
  /** Called with each unexpected error. The client does not receive this error. */
  readonly onError?: (error: unknown) => void;
}

/** Serves Connect, gRPC, gRPC-Web and HTTP endpoints on one port of Node or Deno. @throws the error of `listen` */
export function serveNode({ limits, onError, ...options }: ServeOptions, listen: ListenOptions): Promise<NodeServer> {
  const { find, refuse } = new Router(options);
  const report = (error: unknown) => {
    try {
      onError?.(error);
    } catch {
      // An exception in an event listener would end the process.
    }
  };
  return openPort({ ...listen, find, refuse, onError: report, limits });
}

/**
 * Listens on one port for HTTP/1.1 and HTTP/2, over TLS if `tls` is set.
 *
 * An HTTP/1.1 server listens. If a connection begins with the HTTP/2 preface, or if ALPN has selected `h2`, the
 * connection becomes an `Http2Connection`. On Deno, the HTTP/1.1 server itself must listen. If another server accepted
 * its connections, Deno would drop each connection after one request. The option `allowHTTP1` of node:http2 is no
 * alternative, because it ignores the limits of HTTP/1.1.
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
    streams: new ClientBudget(limits.streams.max),
    delayedCharges: new DelayedCharges(),
    scheme: options.tls ? "https" : "http",
  };
  const connections = new Connections(limits);
  const server = listener(options.tls, limits);
  server.on("request", http1Listener(context, "none"));
  server.on("checkContinue", http1Listener(context, "continue"));
  server.on("checkExpectation", http1Listener(context, "unknown"));
  /** Calls `act`. If `act` throws, closes only the connection of this socket. */
  const guarded = (socket: Socket, act: () => void) => {
    try {
      act();
    } catch (failure) {
      socket.destroy();
      onError?.(failure);
    }
  };
  server.on("clientError", (error, socket: Socket) =>
    guarded(socket, () => Http1Connection.of(socket).onClientError(error, context)),
  );
  // Without a listener, node:http closes the connection when a CONNECT request arrives. Earlier requests on the
  // connection would then get no answer.
  server.on("connect", (_request, socket: Socket) => Http1Connection.of(socket).refuseTunnel());
  const serveHttp1 = detachListeners(server, options.tls ? "secureConnection" : "connection");
  const openHttp2 = new Set<Http2Connection>();
  const serveNow = (socket: Socket, isHttp2: boolean) => {
    if (!isHttp2) {
      const http1 = new Http1Connection(socket);
      connections.identify(socket, { http1 });
      serveHttp1(socket);
      http1.servePipelinedInTurn();
      // If a request arrives during the write of a response, node:http pauses its parser, but not the handle that the
      // parser reads. The next TLS record would break the connection with "Parse Error: Paused". If the socket has
      // another `data` listener, node:http does not read from the handle.
      if (options.tls) socket.on("data", () => {});
      return;
    }
    const connection = new Http2Connection(socket, limits, openHttp2);
    connection.session.once("stream", patchDenoStreamLeak).on("stream", http2Listener({ context, connection }));
    connections.identify(socket, { http2: connection });
  };
  const arrivals = new Arrivals();
  const serve = (socket: Socket, isHttp2: boolean) => {
    const address = plainAddress(socket.remoteAddress);
    arrivals.add(socket, { client: limits.clientOf(address) ?? address, isHttp2 }, () =>
      guarded(socket, () => serveNow(socket, isHttp2)),
    );
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
      // If the system cannot accept a connection, for example for lack of file descriptors, the process must not end.
      server.on("error", (error) => options.onConnectionError?.(error));
      resolve();
    });
  });
  return {
    url: urlOf(server.address() as AddressInfo, options.tls !== undefined),
    drain: (quietMs) =>
      new Promise((resolve) => {
        // node:http would close idle connections, but the next request may be in transit.
        server.closeIdleConnections = () => {};
        server.close(() => {
          stopChecks();
          resolve();
        });
        // On Deno, a server that does not listen destroys each connection after a response, even if pipelined requests
        // wait.
        Object.defineProperty(server, "listening", { value: true });
        const stopChecks = connections.drain(quietMs);
      }),
    destroy: () => connections.destroy(),
    setCertificates(tls) {
      if (!(server instanceof SecureServer)) throw new TypeError("the port has no TLS");
      server.setSecureContext(secureContextOf(tls));
    },
  };
}

function listener(tls: ListenOptions["tls"], limits: Limits): HttpServer {
  const { headerTimeoutMs: headersTimeout } = limits;
  const options = { ...HTTP1_OPTIONS, headersTimeout, requestTimeout: requestTimeoutMs(limits) };
  const server = tls
    ? createSecureServer({
        ...options,
        ALPNProtocols: ["h2", "http/1.1"],
        handshakeTimeout: limits.firstByteTimeoutMs,
        ...secureContextOf(tls),
        requestCert: tls.clientCa !== undefined,
      })
    : createServer(options);
  // By default, node:https treats a failed TLS handshake as a malformed request (`clientError`).
  server.removeAllListeners("tlsClientError").on("tlsClientError", (_error, socket: Socket) => socket.destroy());
  // Do not limit the number of header fields, because node:http would silently drop the fields beyond the limit.
  // `maxHeaderSize` limits the size of all fields.
  server.maxHeadersCount = 0;
  return server;
}

function secureContextOf({ cert, key, clientCa }: Certificates) {
  return { cert, key, ca: clientCa };
}

/** Removes the listeners of an event. Returns a function that calls these listeners. */
function detachListeners(server: HttpServer, event: "connection" | "secureConnection"): (socket: Socket) => void {
  const taken = server.listeners(event) as ((socket: Socket) => void)[];
  server.removeAllListeners(event);
  return (socket) => {
    for (const listener of taken) listener.call(server, socket);
  };
}

/**
 * Detects HTTP/2 by the first bytes of a connection. Puts these bytes back into the socket before it calls `decide`.
 */
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

function urlOf({ address, port }: Pick<AddressInfo, "address" | "port">, secure: boolean): string {
  const host = address.includes(":") ? `[${address}]` : address;
  return `${secure ? "https" : "http"}://${host}:${port}`;
}
