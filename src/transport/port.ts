import { createServer, type Server as HttpServer, type IncomingMessage, type ServerResponse } from "node:http";
import {
  createServer as createHttp2Server,
  createSecureServer,
  type Http2SecureServer,
  type Http2Server,
  type IncomingHttpHeaders,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from "node:http2";
import type { AddressInfo, Socket } from "node:net";
import { answerHttp1Errors, type OnHttpError, refuseHttp1 } from "./http-errors.ts";

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
  /** How long a connection may say nothing before its first request, in milliseconds. Default 10 s. */
  readonly firstByteTimeoutMs?: number;
  /**
   * How long nothing may come or go on an HTTP/2 connection, a PING included, before it takes no new streams, in
   * milliseconds. Those that it has may end. Default 10 minutes.
   */
  readonly idleTimeoutMs?: number;
  /** How long after that its streams may go on saying nothing before they are ended, in milliseconds. Default 30 s. */
  readonly stallTimeoutMs?: number;
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

/** Limits that keep one connection from taking much of the process. */
const HTTP2_OPTIONS = { settings: { maxConcurrentStreams: 250, maxHeaderListSize: 32 * 1024 } };
const HTTP1_OPTIONS = {
  maxHeaderSize: 32 * 1024,
  requestTimeout: 30_000,
  headersTimeout: 15_000,
  keepAliveTimeout: 75_000,
  /** How often the timeouts are looked at. */
  connectionsCheckingInterval: 5000,
};

/** Listens on one port for HTTP/1.1 and HTTP/2; over TLS when there is a certificate. */
export async function openPort(options: PortOptions, handlers: PortHandlers): Promise<Port> {
  const connections = new Set<Socket>();
  const sessions = new Set<ServerHttp2Session>();
  /** Connections that have not said what they speak. */
  const undecided = new Set<Socket>();
  const server = options.tls ? tlsServer(options, handlers) : plainServer(options, handlers, { sessions, undecided });
  let draining = false;

  server.on("connection", (socket: Socket) => {
    connections.add(socket);
    socket.on("error", () => {});
    socket.once("close", () => connections.delete(socket));
  });
  server.on("session", (session: ServerHttp2Session) => watch(session));

  function watch(session: ServerHttp2Session): void {
    if (draining) session.close();
    sessions.add(session);
    session.on("error", () => {});
    session.once("close", () => sessions.delete(session));
    session.setTimeout(options.idleTimeoutMs ?? 600_000, () => {
      session.close();
      // Streams that stall would keep it, and what they hold, for as long as the caller likes.
      session.setTimeout(options.stallTimeoutMs ?? 30_000, () => session.destroy());
    });
  }

  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(options.port, options.host, () => {
      server.off("error", reject);
      resolve();
    });
  });
  return {
    url: urlOf(server.address() as AddressInfo, options.tls !== undefined),
    drain: () =>
      new Promise((resolve) => {
        draining = true;
        // Connections that are kept alive become idle one by one.
        const closeIdle = () => ("closeIdleConnections" in server ? server.closeIdleConnections() : undefined);
        const timer = setInterval(closeIdle, 50);
        server.close(() => {
          clearInterval(timer);
          resolve();
        });
        for (const session of sessions) session.close();
        for (const connection of undecided) connection.destroy();
        closeIdle();
      }),
    destroy: () => {
      for (const session of sessions) session.destroy();
      for (const connection of connections) connection.destroy();
    },
  };
}

/**
 * An HTTP/1.1 server that hands the connections that begin with HTTP/2's
 * preface to an HTTP/2 server. The HTTP/1.1 server itself listens: on Deno it
 * drops the connections of another listener after one request.
 */
function plainServer(
  options: PortOptions,
  handlers: PortHandlers,
  { sessions, undecided }: { sessions: Set<ServerHttp2Session>; undecided: Set<Socket> },
): HttpServer {
  const http1 = createServer({ ...HTTP1_OPTIONS, requireHostHeader: !handlers.onHttpError });
  serveHttp1(http1, handlers);
  const http2 = createHttp2Server(HTTP2_OPTIONS);
  http2.on("stream", handlers.onHttp2);
  http2.on("sessionError", () => {});
  http2.on("session", (session: ServerHttp2Session) => http1.emit("session", session));
  http1.on("close", () => sessions.clear());
  const http1Listeners = http1.listeners("connection") as ((socket: Socket) => void)[];
  http1.removeAllListeners("connection");
  http1.on("connection", (socket: Socket) => {
    undecided.add(socket);
    socket.once("close", () => undecided.delete(socket));
    tellApart(socket, options.firstByteTimeoutMs ?? 10_000, (isHttp2) => {
      undecided.delete(socket);
      if (isHttp2) {
        // An HTTP/1.1 server's sockets stay open when the other end is closed; an HTTP/2 session would outlive its client.
        socket.allowHalfOpen = false;
        http2.emit("connection", socket);
      } else for (const listener of http1Listeners) listener.call(http1, socket);
    });
  });
  return http1;
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

function tlsServer(options: PortOptions, handlers: PortHandlers): Http2SecureServer {
  const { tls } = options;
  const server = createSecureServer({
    ...HTTP2_OPTIONS,
    ...HTTP1_OPTIONS,
    ...{ requireHostHeader: !handlers.onHttpError },
    allowHTTP1: true,
    handshakeTimeout: options.firstByteTimeoutMs ?? 10_000,
    ...(tls && { cert: tls.cert, key: tls.key }),
    ...(tls?.clientCa !== undefined && { ca: tls.clientCa, requestCert: true, rejectUnauthorized: true }),
  });
  serveHttp1(server, handlers);
  // Listening for requests made node:http2 turn every stream into one; streams are served as they are.
  server.removeAllListeners("stream");
  server.on("stream", handlers.onHttp2);
  server.on("sessionError", () => {});
  server.on("tlsClientError", () => {});
  return server;
}

function serveHttp1(server: HttpServer | Http2SecureServer, { onHttp1, onHttpError }: PortHandlers): void {
  if (onHttpError) answerHttp1Errors(server, onHttpError);
  const serve: PortHandlers["onHttp1"] = (req, res) => {
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
