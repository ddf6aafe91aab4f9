import { once } from "node:events";
import { createServer, type Server, type ServerResponse } from "node:http";
import {
  type ClientHttp2Session,
  connect as connectHttp2,
  createServer as createHttp2Server,
  Http2ServerRequest,
  Http2ServerResponse,
  type ServerHttp2Stream,
} from "node:http2";
import { createServer as createSecureServer } from "node:https";
import { type AddressInfo, connect, type Socket } from "node:net";
import { type Duplex, Writable } from "node:stream";
import { connect as connectTls } from "node:tls";
import type { Runtime } from "@user-group-service/testing/runtime";
import { privateValue } from "../../src/http/private-value.ts";

interface Certificate {
  readonly cert: string;
  readonly key: string;
}

/** An internal or undocumented behaviour of a runtime that the transport depends on. */
export interface Internal {
  /** The behaviour, and the file that depends on this behaviour. */
  readonly name: string;
  /** The only runtime with this behaviour. Default: all runtimes. */
  readonly runtime?: Runtime;
  readonly holds: (certificate: Certificate) => Promise<boolean>;
}

const REQUEST = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";

async function connected(server: Server, open: (port: number) => Socket): Promise<Socket> {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const socket = open((server.address() as AddressInfo).port);
  return socket.on("error", () => {});
}

async function exchange(server: Server, bytes: string): Promise<void> {
  const isSecure = "setSecureContext" in server;
  const socket = await connected(server, (port) =>
    isSecure ? connectTls({ port, host: "127.0.0.1", rejectUnauthorized: false }) : connect(port, "127.0.0.1"),
  );
  socket.write(bytes);
  const closed = once(socket, "close");
  socket.resume();
  await closed;
  server.close();
}

function respondAndClose(_req: unknown, res: ServerResponse): void {
  res.writeHead(200, { connection: "close" });
  res.end();
}

/**
 * Returns whether a server begins to serve a connection only when the detached listeners are called. This must hold
 * even if bytes were put back into the socket.
 */
async function servesByItsListeners(server: Server, event: "connection" | "secureConnection"): Promise<boolean> {
  let isHanded = false;
  const served: boolean[] = [];
  server.on("request", () => served.push(isHanded));
  const taken = server.listeners(event) as ((socket: Socket) => void)[];
  server.removeAllListeners(event);
  server.on(event, (socket: Socket) =>
    socket.once("readable", () => {
      socket.unshift(socket.read());
      setImmediate(() => {
        isHanded = true;
        for (const listener of taken) listener.call(server, socket);
      });
    }),
  );
  await exchange(server, REQUEST);
  return served.join() === "true";
}

async function openedStream(body = "") {
  const server = createHttp2Server();
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const session = connectHttp2(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  const streaming = once(server, "stream");
  const request = session.request({ ":method": "POST" });
  request.on("error", () => {}).end(body);
  const [stream, headers] = await streaming;
  const close = () => {
    session.destroy();
    server.close();
  };
  return { stream: stream as ServerHttp2Stream, headers, request, close };
}

/** If a behaviour no longer holds, the runtime has changed. The name of the behaviour contains the affected file. */
export const INTERNALS: readonly Internal[] = [
  {
    name: "`parser.onIncoming` of a socket receives its requests and can be replaced (http/connections.ts)",
    holds: async () => {
      let requests = 0;
      const server = createServer(({ socket }, res) => {
        requests++;
        const { parser } = socket as { parser?: { onIncoming: () => number } };
        if (parser) parser.onIncoming = () => 0;
        res.writeHead(200, { connection: "close" });
        setTimeout(() => res.end(), 50);
      });
      await exchange(server, REQUEST.repeat(5));
      return requests === 1;
    },
  },
  {
    name: "node:http closes a connection by `destroySoon` of its socket (http/connections.ts)",
    holds: async () => {
      let isCalled = false;
      const server = createServer((req, res) => {
        req.socket.destroySoon = () => {
          isCalled = true;
          req.socket.destroy();
        };
        respondAndClose(req, res);
      });
      await exchange(server, REQUEST);
      return isCalled;
    },
  },
  {
    name: "after a parse error, each further piece of data adds the same `error` listener again (http/connections.ts)",
    runtime: "deno",
    holds: async () => {
      const server = createServer();
      const client = await connected(server, (port) => connect(port, "127.0.0.1"));
      const refused = async () => {
        const failing = once(server, "clientError") as Promise<[Error, Duplex]>;
        client.write("nonsense\r\n\r\n");
        return (await failing)[1].listeners("error");
      };
      await refused();
      const [second, third] = [await refused(), await refused()];
      client.destroy();
      server.close();
      return third.length === second.length + 1 && third.at(-1) === third.at(-2);
    },
  },
  {
    name: "`close` of a server closes its idle connections by `closeIdleConnections`, which can be replaced (http/port.ts)",
    holds: async () => {
      const server = createServer((_req, res) => res.end());
      const socket = await connected(server, (port) => connect(port, "127.0.0.1"));
      socket.write(REQUEST);
      await once(socket, "data");
      server.closeIdleConnections = () => {};
      server.close();
      socket.write(REQUEST);
      const isAnswered = await Promise.race([once(socket, "data"), once(socket, "close").then(() => undefined)]);
      socket.destroy();
      return isAnswered !== undefined;
    },
  },
  {
    name: "node:http serves a connection through its server's `connection` listeners, which can be called later (http/port.ts)",
    holds: () => servesByItsListeners(createServer(respondAndClose), "connection"),
  },
  {
    name: "node:https serves a connection through its `secureConnection` listeners (http/port.ts)",
    holds: (certificate) => servesByItsListeners(createSecureServer(certificate, respondAndClose), "secureConnection"),
  },
  {
    name: "if a TLS connection has another `data` listener, node:http reads the connection as a stream (http/port.ts)",
    holds: async (certificate) => {
      let heard = "";
      const server = createSecureServer(certificate, respondAndClose);
      server.on("secureConnection", (socket) => {
        socket.on("data", (chunk) => {
          heard += chunk;
        });
      });
      await exchange(server, REQUEST);
      return heard === REQUEST;
    },
  },
  {
    name: "a request and a response of node:http2 can be constructed from a stream (http/http2.ts)",
    holds: async () => {
      const { stream, headers, request, close } = await openedStream("body");
      const [req, res] = [new Http2ServerRequest(stream, headers, {}, []), new Http2ServerResponse(stream)];
      const answered = Promise.all([once(request, "response"), once(request, "trailers")]);
      res.writeHead(200, { "x-method": req.method });
      res.addTrailers({ "x-trailer": "t" });
      for await (const chunk of req) res.write(chunk);
      res.end();
      let body = "";
      for await (const chunk of request) body += chunk;
      const [[response], [trailers]] = await answered;
      close();
      return [response["x-method"], body, trailers["x-trailer"]].join() === "POST,body,t";
    },
  },
  {
    name: "two calls of `read(0)` end a request without a body (http/http1.ts)",
    runtime: "node",
    holds: async () => {
      let hasEnded = false;
      const server = createServer((req, res) => {
        req.read(0);
        setImmediate(() => {
          req.read(0);
          res.on("finish", () => (hasEnded = req.readableEnded));
          respondAndClose(req, res);
        });
      });
      await exchange(server, REQUEST);
      return hasEnded;
    },
  },
  {
    name: "the handle of a socket stops and starts to read an HTTP/2 connection (http/http2-connection.ts)",
    holds: async () => {
      const server = createHttp2Server();
      const paths: unknown[] = [];
      server.on("stream", (stream, headers) => {
        paths.push(headers[":path"]);
        stream.respond({}, { endStream: true });
      });
      server.listen(0, "127.0.0.1");
      await once(server, "listening");
      const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
      const accepting = once(server, "connection");
      const [paused, other] = [connectHttp2(url), connectHttp2(url)];
      const get = (session: ClientHttp2Session, path: string) => once(session.request({ ":path": path }), "response");
      const [socket] = (await accepting) as [Socket & { _handle: { readStop(): void; readStart(): void } }];
      await get(paused, "/1");
      socket._handle.readStop();
      const second = get(paused, "/2");
      for (let i = 0; i < 20; i++) await get(other, "/other");
      const isPaused = !paths.includes("/2");
      socket._handle.readStart();
      await second;
      for (const session of [paused, other]) session.destroy();
      server.close();
      return isPaused;
    },
  },
  {
    name: "the `state` of a node:http2 session has a `Map` `streams` of its open streams (http/node-stream-map.ts)",
    holds: async () => {
      const { stream, close } = await openedStream();
      const { session } = stream;
      const state = session && (privateValue(session, "state") as { streams?: Map<unknown, unknown> } | undefined);
      const isThere = state?.streams?.get(stream.id) === stream;
      close();
      return isThere;
    },
  },
  {
    name: "the callback of `end` receives the error in the state of a destroyed stream (http/http2.ts)",
    runtime: "node",
    holds: async () => {
      const error = new Error("set");
      const stream = new Writable({ write: (_chunk, _encoding, done) => void setImmediate(done) });
      stream.write("x", () =>
        Object.assign((stream as unknown as { _writableState: object })._writableState, { errored: error }),
      );
      const ending = new Promise((resolve) => stream.end(resolve));
      stream.destroy();
      return (await ending) === error;
    },
  },
  {
    name: "a stream of node:http2 has the handle `kHandle`, whose prototype has `shutdown` (http/deno-stream-leak.ts)",
    runtime: "deno",
    holds: async () => {
      const { stream, close } = await openedStream();
      const handle = privateValue(stream, "kHandle") as object | undefined;
      const isThere = typeof (handle && Object.getPrototypeOf(handle).shutdown) === "function";
      close();
      return isThere;
    },
  },
];

// If this file is started as a process, its argument is the certificate as JSON. The process reports whether each
// behaviour holds.
if ((import.meta as { main?: boolean }).main) {
  const certificate = JSON.parse(process.argv[2] ?? "") as Certificate;
  for (const { name, holds } of INTERNALS) {
    void holds(certificate)
      .catch(() => false)
      .then((doesHold) => console.log(`${name}: ${doesHold}`));
  }
}
