import { createServer, type Server as HttpServer, type IncomingMessage, type ServerResponse } from "node:http";
import {
  createServer as createHttp2Server,
  type Http2Server,
  type IncomingHttpHeaders,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from "node:http2";
import { createServer as createSecureServer } from "node:https";
import type { AddressInfo, Socket } from "node:net";
import type { TLSSocket } from "node:tls";
import { Connections, endConnection } from "./connections.ts";
import { DeadSessions } from "./dead-sessions.ts";
import { answerHttp1Errors, type OnHttpError, refuseHttp1 } from "./http-errors.ts";
import { Pipelines } from "./pipelines.ts";
import { unrootStreams } from "./unrooted-streams.ts";

/** What a port passes on. */
export interface PortHandlers {
  readonly onHttp1: (req: IncomingMessage, res: ServerResponse) => void;
  readonly onHttp2: (
    stream: ServerHttp2Stream,
    headers: IncomingHttpHeaders,
    flags: number,
    rawHeaders: string[],
  ) => void;
  /** Answers what node:http refuses over HTTP/1.1. Default: node:http does, with a status alone. */
  readonly onHttpError?: OnHttpError | undefined;
}

/** Options of a port. */
export interface PortOptions {
  readonly host: string;
  /** 0 picks a free one. */
  readonly port: number;
  /** Certificates in PEM; without them the port speaks HTTP/1.1 and HTTP/2 in the clear. */
  readonly tls?: { readonly cert: string; readonly key: string; readonly clientCa: string | undefined } | undefined;
  /**
   * How many connections may be open. One more closes those that have been silent; when there are none it is closed
   * itself, before anything is read of it. Default: any number.
   */
  readonly maxConnections?: number;
  /** Hears of connections that the system refuses. */
  readonly onError?: (error: Error) => void;
  /** How long a connection may say nothing before its first request, in milliseconds. Default 10 s. */
  readonly firstByteTimeoutMs?: number;
  /**
   * How long nothing may come or go on an HTTP/2 connection, a PING included, before it takes no new streams, in
   * milliseconds. Those that it has may end. Default 10 minutes.
   */
  readonly idleTimeoutMs?: number;
  /** How long after that its streams may go on saying nothing before they are ended, in milliseconds. Default 30 s. */
  readonly stallTimeoutMs?: number;
  /** How often HTTP/2 connections that broke the protocol are looked for, in milliseconds. Default 10 s. */
  readonly deadLookMs?: number;
}

/** A port that is listened on. */
export interface Port {
  readonly url: string;
  /** Stops accepting, finishes what is under way and resolves when the last connection is closed. */
  drain(): Promise<void>;
  /** Ends every connection now. */
  destroy(): void;
}

/** The first bytes of every HTTP/2 connection (RFC 9113, 3.4). */
const PREFACE = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");

const FIRST_BYTE_TIMEOUT_MS = 10_000;

/** How large the header fields of a request may be, in bytes. */
export const MAX_HEADER_BYTES = 32 * 1024;

/** Limits that keep one connection from taking much of the process. */
const HTTP2_OPTIONS = {
  settings: { maxConcurrentStreams: 250, maxHeaderListSize: MAX_HEADER_BYTES },
  // No client has a use for more.
  maxSettings: 16,
  maxSessionInvalidFrames: 100,
};
const HTTP1_OPTIONS = {
  maxHeaderSize: MAX_HEADER_BYTES,
  requestTimeout: 30_000,
  headersTimeout: 15_000,
  keepAliveTimeout: 75_000,
  /** How often the timeouts are looked at. */
  connectionsCheckingInterval: 5000,
};

/**
 * Listens on one port for HTTP/1.1 and HTTP/2; over TLS when there is a certificate.
 *
 * It is an HTTP/1.1 server that listens, and hands the connections that speak
 * HTTP/2 to a server of that: those that begin with its preface or, over TLS,
 * whose handshake says so. On Deno an HTTP/1.1 server drops the connections of
 * another listener after one request; and node:http2's own way of serving both
 * over TLS passes over the limits of HTTP/1.1.
 */
export async function openPort(options: PortOptions, handlers: PortHandlers): Promise<Port> {
  const connections = new Connections(options.maxConnections ?? Infinity);
  const deadSessions = new DeadSessions(options.deadLookMs);
  const server = listener(options, handlers);
  let opened: ServerHttp2Session | undefined;
  const http2 = http2Server(options, handlers);
  http2.on("session", (session: ServerHttp2Session) => {
    opened = session;
  });
  const serveHttp1 = takeListeners(server, options.tls ? "secureConnection" : "connection");
  const serve = (socket: Socket, isHttp2: boolean) => {
    if (socket.destroyed) return;
    if (!isHttp2) {
      connections.speaksHttp1(socket);
      serveHttp1(socket);
      return;
    }
    // An HTTP/1.1 server's sockets stay open when the other end is closed; an HTTP/2 session would outlive its client.
    socket.allowHalfOpen = false;
    opened = undefined;
    http2.emit("connection", socket);
    if (!opened) return;
    connections.speaksHttp2(socket, opened);
    deadSessions.watch(opened, socket);
  };
  if (options.tls) {
    const shakeHands = takeListeners(server, "connection");
    server.on("connection", (socket: Socket) => {
      if (connections.accept(socket)) shakeHands(socket);
    });
    server.on("secureConnection", (socket: TLSSocket) => serve(socket, socket.alpnProtocol === "h2"));
  } else {
    server.on("connection", (socket: Socket) => {
      if (!connections.accept(socket)) return;
      tellApart(socket, options.firstByteTimeoutMs ?? FIRST_BYTE_TIMEOUT_MS, (isHttp2) => serve(socket, isHttp2));
    });
  }

  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(options.port, options.host, () => {
      server.off("error", reject);
      // What cannot be accepted, for want of descriptors, must not end the process.
      server.on("error", (error) => options.onError?.(error));
      resolve();
    });
  });
  return {
    url: urlOf(server.address() as AddressInfo, options.tls !== undefined),
    drain: () =>
      new Promise((resolve) => {
        // Connections that are kept alive become idle one by one.
        const timer = setInterval(() => server.closeIdleConnections(), 50);
        server.close(() => {
          clearInterval(timer);
          resolve();
        });
        connections.drain();
        server.closeIdleConnections();
      }),
    destroy: () => connections.destroy(),
  };
}

/** An HTTP/1.1 server that is to listen. */
function listener({ tls, firstByteTimeoutMs }: PortOptions, handlers: PortHandlers): HttpServer {
  const options = { ...HTTP1_OPTIONS, requireHostHeader: !handlers.onHttpError };
  const server = tls
    ? createSecureServer({
        ...options,
        ALPNProtocols: ["h2", "http/1.1"],
        handshakeTimeout: firstByteTimeoutMs ?? FIRST_BYTE_TIMEOUT_MS,
        cert: tls.cert,
        key: tls.key,
        ...(tls.clientCa !== undefined && { ca: tls.clientCa, requestCert: true, rejectUnauthorized: true }),
      })
    : createServer(options);
  // Else it would be answered as a broken request is.
  server.removeAllListeners("tlsClientError").on("tlsClientError", (_error, socket: Socket) => socket.destroy());
  serveRequests(server, handlers);
  return server;
}

/** Serves the connections that it is given. */
function http2Server(options: PortOptions, handlers: PortHandlers): Http2Server {
  const http2 = createHttp2Server(HTTP2_OPTIONS);
  http2.once("stream", unrootStreams);
  http2.on("stream", handlers.onHttp2);
  http2.on("sessionError", () => {});
  http2.on("session", (session: ServerHttp2Session) => {
    session.on("error", () => {});
    session.setTimeout(options.idleTimeoutMs ?? 600_000, () => {
      session.close();
      // Streams that stall would keep it, and what they hold, for as long as the caller likes.
      session.setTimeout(options.stallTimeoutMs ?? 30_000, () => endConnection(session));
    });
  });
  return http2;
}

/** Takes the listeners of an event off, to be called by whoever takes their place. */
function takeListeners(server: HttpServer, event: "connection" | "secureConnection"): (socket: Socket) => void {
  const taken = server.listeners(event) as ((socket: Socket) => void)[];
  server.removeAllListeners(event);
  return (socket) => {
    for (const listener of taken) listener.call(server, socket);
  };
}

/** Waits for as many bytes as tell HTTP/2 from HTTP/1.1, and puts them back. */
function tellApart(socket: Socket, timeoutMs: number, decide: (isHttp2: boolean) => void): void {
  let seen: Buffer = Buffer.alloc(0);
  const timer = setTimeout(() => socket.destroy(), timeoutMs);
  const stop = () => {
    clearTimeout(timer);
    socket.off("readable", onReadable);
    socket.off("close", stop);
    socket.off("end", onEnd);
  };
  const onEnd = () => {
    stop();
    socket.destroy();
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
  socket.once("end", onEnd);
}

function serveRequests(server: HttpServer, { onHttp1, onHttpError }: PortHandlers): void {
  if (onHttpError) answerHttp1Errors(server, onHttpError);
  const pipelines = new Pipelines();
  const serve: PortHandlers["onHttp1"] = (req, res) => {
    if (!pipelines.takes(req, res)) return;
    // RFC 9112, 3.2; node:http would see to it, and answer with a status alone.
    const isRefused = req.headers.host === undefined && req.httpVersion !== "1.0";
    if (onHttpError && isRefused) refuseHttp1(req, res, { status: 400, onHttpError });
    else onHttp1(req, res);
  };
  server.on("request", serve as never);
}

/** A listener of streams that gives them to a request listener, as node:http2 does it. */
export function streamsAsRequests(listener: (req: never, res: never) => void): PortHandlers["onHttp2"] {
  const http2: Http2Server = createHttp2Server(listener as never);
  return (stream, headers, flags, rawHeaders) => http2.emit("stream", stream, headers, flags, rawHeaders);
}

/** The URL of what listens at an address. */
export function urlOf({ address, port }: Pick<AddressInfo, "address" | "port">, secure: boolean): string {
  const host = address.includes(":") ? `[${address}]` : address;
  return `${secure ? "https" : "http"}://${host}:${port}`;
}
