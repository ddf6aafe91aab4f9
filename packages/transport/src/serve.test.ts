import { IncomingMessage, request as requestHttp1 } from "node:http";
import { connect as connectHttp2, constants } from "node:http2";
import { connect } from "node:net";
import { queryObjects } from "node:v8";
import { ConnectError } from "@connectrpc/connect";
import { openWire } from "@user-group-service/testing/attacks/wire";
import { pinged } from "@user-group-service/testing/http";
import { HELLO } from "@user-group-service/testing/http2-frames";
import { waitFor } from "@user-group-service/testing/wait";
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { TalkService } from "../test/gen/talk/v1/talk_pb.ts";
import { CallQueue, type Endpoint, type NodeServer, type ServeOptions, serveNode } from "./index.ts";

it("counts a call in flight until it ends, even if the client has disconnected", async () => {
  let begun = 0;
  let finish = () => {};
  const finished = new Promise<void>((resolve) => (finish = resolve));
  const server = await serveNode(
    {
      routes: ({ rpc }) =>
        rpc(TalkService.method.say, async () => {
          begun++;
          await finished;
          return {};
        }),
      queue: new CallQueue({ maxCalls: 1 }),
    },
    { host: "127.0.0.1", port: 0, tls: undefined },
  );
  const session = connectHttp2(server.url);
  session.on("error", () => {});
  const headers = { ":method": "POST", ":path": "/talk.v1.TalkService/Say", "content-type": "application/json" };
  const first = session.request(headers);
  first.on("error", () => {}).end("{}");
  await waitFor("the call has begun", () => begun === 1);
  first.close();
  await new Promise((resolve) => first.once("close", resolve));
  const statusOfAnother = async () => {
    const stream = session.request(headers);
    stream.end("{}").resume();
    const status = await new Promise((resolve) => stream.once("response", (answer) => resolve(answer[":status"])));
    return status;
  };
  expect(await statusOfAnother()).toBe(429);
  finish();
  await waitFor("another call is accepted", async () => (await statusOfAnother()) === 200);
  session.destroy();
  server.destroy();
});

it("answers a call on an open connection before it serves the last of many new connections", async () => {
  const routes: ServeOptions["routes"] = ({ service }) => service(TalkService, { watch: async function* () {} });
  const server = await serveNode({ routes }, { host: "127.0.0.1", port: 0, tls: undefined });
  const session = connectHttp2(server.url);
  await pinged(session);
  const flood = await Promise.all(Array.from({ length: 30 }, () => openWire(server.url)));
  for (const raw of flood) raw.push(HELLO);
  await new Promise((resolve) => session.request({ ":path": "/" }).once("response", resolve));
  const served = () => flood.filter((raw) => raw.received().length > 0).length;
  expect(served()).toBeLessThan(15);
  await waitFor("all connections are served", () => served() === 30);
  for (const { socket } of flood) socket.destroy();
  session.destroy();
  server.destroy();
});

it("a server at the limit of connections closes an idle HTTP/2 connection, but no connection with an open stream", async () => {
  const server = await serveNode(
    {
      routes: ({ service }) =>
        service(TalkService, {
          watch: async function* (_, { signal }) {
            yield {};
            await new Promise((resolve) => signal.addEventListener("abort", resolve));
          },
        }),
      limits: { maxConnections: 2 },
    },
    { host: "127.0.0.1", port: 0, tls: undefined },
  );
  const [watching, idle] = [connectHttp2(server.url), connectHttp2(server.url)];
  for (const session of [watching, idle]) session.on("error", () => {});
  const headers = { ":method": "POST", ":path": "/talk.v1.TalkService/Watch", "content-type": "application/grpc" };
  const watch = watching.request(headers).on("error", () => {});
  watch.end(Buffer.alloc(5));
  await new Promise((resolve) => watch.once("data", resolve));
  await pinged(idle);
  await waitFor("another client is served", async () => {
    const raw = await openWire(server.url, "http/1.1", { first: "GET / HTTP/1.1\r\nhost: x\r\n\r\n" });
    await waitFor("the server answers or closes the connection", () => raw.isClosed || raw.received().length > 0);
    return raw.received().length > 0;
  });
  await waitFor("the idle connection is closed", () => idle.closed);
  expect([watching.closed, watch.closed]).toEqual([false, false]);
  watching.destroy();
  server.destroy();
});

it("frees the memory of an answered request without a body while the connection is idle", async () => {
  const server = await serveNode(
    { routes: ({ service }) => service(TalkService, { watch: async function* () {} }) },
    { host: "127.0.0.1", port: 0, tls: undefined },
  );
  const before = queryObjects(IncomingMessage);
  const path = "/talk.v1.TalkService";
  const json = "content-type: application/connect+json";
  const requests = [
    "GET / HTTP/1.1",
    `POST ${path}/Say HTTP/1.1\r\ncontent-type: application/json`,
    // Connect's handler responds to these requests and does not read their bodies.
    `POST ${path}/Watch HTTP/1.1\r\n${json}\r\nconnect-timeout-ms: x`,
    `POST ${path}/Watch HTTP/1.1\r\n${json}\r\nconnect-content-encoding: nope`,
  ];
  for (const request of requests) {
    const raw = await openWire(server.url, "http/1.1", { first: `${request}\r\nhost: x\r\n\r\n` });
    await waitFor("the request is answered", () => raw.received().length > 0);
    await waitFor(`the request is freed: ${request}`, () => queryObjects(IncomingMessage) <= before);
    expect(raw.isClosed).toBe(false);
    raw.socket.destroy();
  }
  server.destroy();
});

describe("the body of a request to an endpoint", () => {
  const method = { maxBytes: 100, serve: async () => ({ status: 200, headers: {}, body: "" }) };
  const endpoints = new Map<string, Endpoint>([
    ["/no-call", { methods: new Map([["POST", method]]) }],
    ["/open-call", { methods: new Map([["POST", { ...method, rpc: TalkService.method.look }]]) }],
    ["/call", { methods: new Map([["POST", { ...method, rpc: TalkService.method.say }]]) }],
  ]);
  let server: NodeServer;
  beforeAll(async () => {
    const options: ServeOptions = {
      routes: ({ service }) => service(TalkService, {}),
      endpoints,
      isOpen: ({ name }) => name === "Look",
      onRefused: ({ kind }) => new ConnectError(kind),
      limits: { arrivalTimeoutMs: 60_000, openArrivalTimeoutMs: 100 },
    };
    server = await serveNode(options, { host: "127.0.0.1", port: 0 });
  });
  afterAll(() => server.destroy());

  async function sendHalf(path: string): Promise<{ status(): Promise<number | undefined>; close(): void }> {
    const session = connectHttp2(server.url);
    const stream = session.request({ ":method": "POST", ":path": path }, { endStream: false });
    let status: number | undefined;
    stream.once("response", (headers) => {
      status = headers[":status"];
    });
    stream.on("error", () => {}).resume();
    stream.write("half");
    await pinged(session);
    return {
      status: async () => {
        await pinged(session);
        return status;
      },
      close: () => session.destroy(),
    };
  }

  it("has less time to arrive for an open method than for an authorized call", async () => {
    const call = await sendHalf("/call");
    // The requests in `short` begin after `call`, but the server refuses them while `call` still waits for its body.
    const short = [await sendHalf("/no-call"), await sendHalf("/open-call")];
    for (const half of short) await waitFor("the request is refused", async () => (await half.status()) === 408);
    expect(await call.status()).toBeUndefined();
    for (const half of [call, ...short]) half.close();
  });
});

describe("failed responses", () => {
  const failed = { status: 200, headers: { upgrade: "not in HTTP/2", "x-bad": "a\r\nb" }, body: "" };
  const endpoints = new Map<string, Endpoint>([
    ["/header", { methods: new Map([["POST", { serve: async () => failed }]]) }],
    ["/error", { methods: new Map([["POST", { serve: () => Promise.reject(new Error("no response")) }]]) }],
  ]);
  const errors: string[] = [];
  let server: NodeServer;

  beforeAll(async () => {
    const options: ServeOptions = {
      routes: ({ rpc }) =>
        rpc(TalkService.method.say, (_request, { responseTrailer }) => {
          responseTrailer.set("connection", "close");
          return {};
        }),
      endpoints,
      httpError: ({ rawMessage }) => {
        throw new Error(rawMessage);
      },
      onRefused: () => new ConnectError("no error response"),
      onError: (error) => errors.push((error as Error).message),
    };
    server = await serveNode(options, { host: "127.0.0.1", port: 0, tls: undefined });
  });
  afterAll(() => server.destroy());
  beforeEach(() => {
    errors.length = 0;
  });

  const SAY = "/talk.v1.TalkService/Say";

  it.each([
    ["/header", "application/json", expect.stringContaining('"upgrade"')],
    ["/error", "application/json", "no error response"],
    [SAY, "application/grpc+json", expect.stringContaining('"connection"')],
  ])("a failed response to %s resets the stream, and its error reaches onError", async (path, type, message) => {
    const session = connectHttp2(server.url);
    const stream = session.request({ ":method": "POST", ":path": path, "content-type": type });
    stream.on("error", () => {}).resume();
    stream.end(Buffer.from("00000000027b7d", "hex"));
    await new Promise((resolve) => stream.once("close", resolve));
    expect([stream.rstCode, errors]).toEqual([constants.NGHTTP2_INTERNAL_ERROR, [message]]);
    session.destroy();
  });

  it.each([
    ["no host", "GET / HTTP/1.1\r\n\r\n"],
    ["an unknown expectation", "GET / HTTP/1.1\r\nHost: x\r\nExpect: x\r\n\r\n"],
    ["invalid HTTP", "what\r\n\r\n"],
  ])(
    "a failed response to a request with %s closes the HTTP/1.1 connection, and its error reaches onError",
    async (_what, text) => {
      const socket = connect(Number(new URL(server.url).port), "127.0.0.1");
      socket.on("error", () => {}).resume();
      socket.write(text);
      await new Promise((resolve) => socket.once("close", resolve));
      expect([socket.bytesRead, errors]).toEqual([0, ["no error response"]]);
    },
  );

  it("a failed response does not end the process if onError throws", async () => {
    const failing = vi.spyOn(errors, "push").mockImplementation(() => {
      throw new Error("no log");
    });
    const request = requestHttp1(`${server.url}/error`, { method: "POST" });
    const error = await new Promise<NodeJS.ErrnoException>((resolve) => request.once("error", resolve).end());
    expect([error.code, failing.mock.calls.length]).toEqual(["ECONNRESET", 1]);
    failing.mockRestore();
  });

  it.each([
    ["/header", 'Invalid character in header content ["x-bad"]'],
    ["/error", "no error response"],
  ])("a failed response to %s closes the HTTP/1.1 connection, and its error reaches onError", async (path, message) => {
    const request = requestHttp1(`${server.url}${path}`, { method: "POST" });
    const error = await new Promise<NodeJS.ErrnoException>((resolve) => request.once("error", resolve).end());
    expect([error.code, errors]).toEqual(["ECONNRESET", [message]]);
  });
});
