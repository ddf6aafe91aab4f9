import { once } from "node:events";
import { connect } from "node:net";
import { openWire, Wire } from "@user-group-service/testing/attacks/wire";
import { HTTP2_GET } from "@user-group-service/testing/http2-frames";
import { RUNTIMES } from "@user-group-service/testing/runtime";
import { pause, waitFor } from "@user-group-service/testing/wait";
import { type EndpointMethod, type NodeServer, type ServeOptions, serveNode } from "@user-group-service/transport";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { sharedServer } from "./support/opened.ts";

const HEADERS_FRAME = 1;
const HTTP1_GET = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";

const opened: Wire[] = [];
afterEach(() => {
  for (const { socket } of opened.splice(0)) socket.destroy();
});

async function dial(url: string, first: Uint8Array | string = ""): Promise<Wire> {
  const raw = await openWire(url, undefined, { first });
  opened.push(raw);
  return raw;
}

const open = (
  limits: ServeOptions["limits"],
  serve: EndpointMethod["serve"] = async () => ({ status: 200, headers: {}, body: "served" }),
  host = "127.0.0.1",
) =>
  serveNode(
    { routes: () => {}, endpoints: new Map([["/", { methods: new Map([["GET", { serve }]]) }]]), limits },
    { host, port: 0 },
  );

const answeredHttp2 = (raw: Wire) =>
  waitFor("HTTP/2 responds", () => raw.frames().some(({ type, stream }) => type === HEADERS_FRAME && stream === 1));

const answeredHttp1 = (raw: Wire, times = 1) =>
  waitFor("HTTP/1.1 responds", () => raw.received().toString("latin1").split("HTTP/1.1 ").length > times);

describe.each(RUNTIMES)("one port on %s", (runtime) => {
  const server = sharedServer({ runtime });

  it("serves HTTP/2 if its preface arrives byte by byte", async () => {
    const raw = await dial(server.url);
    await raw.pushSlowly(HTTP2_GET);
    await answeredHttp2(raw);
  });

  it.each([1, 3, 14, 23, 24, 25, 33])("serves HTTP/2 if its first %i bytes arrive separately", async (length) => {
    const raw = await dial(server.url);
    raw.push(HTTP2_GET.subarray(0, length));
    await pause(20);
    expect(raw.isClosed).toBe(false);
    raw.push(HTTP2_GET.subarray(length));
    await answeredHttp2(raw);
  });

  it.each(["/nope", "/usergroup.v1.UserGroupService/GetUserGroup"])(
    "rejects a request to %s before the body arrives, and then serves the next request on the connection",
    async (path) => {
      const raw = await dial(server.url);
      raw.push(`POST ${path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n`);
      await answeredHttp1(raw);
      raw.push("{}");
      await raw.push(HTTP1_GET);
      await answeredHttp1(raw, 2);
    },
  );

  it("serves HTTP/1.1 that arrives byte by byte, and keeps the connection open", async () => {
    const raw = await dial(server.url);
    await raw.pushSlowly(HTTP1_GET);
    await answeredHttp1(raw);
    await raw.pushSlowly(HTTP1_GET);
    await answeredHttp1(raw, 2);
    expect(raw.isClosed).toBe(false);
  });

  it.each(["POST", "PUT", "PRI", "PATCH"])("does not mistake %s for the HTTP/2 preface", async (method) => {
    const raw = await dial(server.url);
    raw.push(method.slice(0, 1));
    await pause(5);
    raw.push(`${method.slice(1)} / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n`);
    await answeredHttp1(raw);
  });

  it.each(["\x00\x00\x00", "PRI * HTTP/2.0\r\n\r\nSM\r\nXX", "\x16\x03\x01\x02\x00"])(
    "survives the bytes %j",
    async (bytes) => {
      const raw = await dial(server.url);
      raw.push(`${bytes}\r\n\r\n`);
      await waitFor(
        "the request is rejected",
        () => raw.isClosed || raw.received().toString("latin1").startsWith("HTTP/1.1 400"),
      );
      expect((await fetch(`${server.url}/healthz`)).status).toBe(200);
    },
  );

  it("survives clients that disconnect during the preface", async () => {
    for (const length of [0, 1, 10, 23]) {
      for (const leave of ["end", "resetAndDestroy"] as const) {
        const raw = await dial(server.url);
        if (length > 0) raw.push(HTTP2_GET.subarray(0, length));
        raw.socket[leave]();
        await waitFor("the connection is closed", () => raw.isClosed);
      }
    }
    expect((await fetch(`${server.url}/healthz`)).status).toBe(200);
  });
});

describe("a port with short timeouts", () => {
  let port: NodeServer;
  beforeAll(async () => {
    port = await open({ firstByteTimeoutMs: 150 });
  });
  afterAll(() => port.destroy());

  it("closes a silent connection", async () => {
    const raw = await dial(port.url);
    await waitFor("the connection is closed", () => raw.isClosed);
    expect(raw.received()).toHaveLength(0);
  });

  it.each([1, 14, 23])("closes a connection that sends only %i bytes of the preface", async (length) => {
    const raw = await dial(port.url);
    raw.push(HTTP2_GET.subarray(0, length));
    await waitFor("the connection is closed", () => raw.isClosed);
  });

  it("closes a connection that sends its preface too slowly", async () => {
    const raw = await dial(port.url);
    let sent = 0;
    const trickle = setInterval(() => raw.push(HTTP2_GET.subarray(sent, ++sent)), 50);
    await waitFor("the connection is closed", () => raw.isClosed);
    clearInterval(trickle);
    expect(raw.received()).toHaveLength(0);
  });

  it("does not close an idle connection that has sent a request", async () => {
    const [one, two] = [await dial(port.url, HTTP1_GET), await dial(port.url, HTTP2_GET)];
    await answeredHttp1(one);
    await answeredHttp2(two);
    const silent = await dial(port.url);
    await waitFor("the silent connection is closed", () => silent.isClosed);
    expect([one.isClosed, two.isClosed]).toEqual([false, false]);
    one.push(HTTP1_GET);
    await answeredHttp1(one, 2);
  });
});

describe("HTTP/1.1 pipelining", () => {
  const pipeline = HTTP1_GET.repeat(30);
  let port: NodeServer;
  let [inFlight, most] = [0, 0];
  beforeAll(async () => {
    port = await open({}, async () => {
      most = Math.max(most, ++inFlight);
      await pause(1);
      inFlight--;
      return { status: 200, headers: {}, body: "served" };
    });
  });
  afterAll(() => port.destroy());

  it("pipelined requests are served one at a time, and all are answered", async () => {
    const raw = await dial(port.url, pipeline);
    await answeredHttp1(raw, 30);
    raw.push(pipeline);
    await answeredHttp1(raw, 60);
    expect([most, raw.isClosed]).toEqual([1, false]);
  });

  it("pipelined requests do not delay requests of another connection", async () => {
    const order: (string | undefined)[] = [];
    const own = await open({}, async ({ headers }) => {
      order.push(headers["x-other"] as string | undefined);
      return { status: 200, headers: {}, body: "served" };
    });
    try {
      const [raw, other] = [await dial(own.url), await dial(own.url)];
      raw.push(pipeline);
      other.push(HTTP1_GET.replace("Host: x", "Host: x\r\nX-Other: yes"));
      await answeredHttp1(raw, 30);
      await answeredHttp1(other);
      expect(order.indexOf("yes")).toBeLessThan(10);
    } finally {
      own.destroy();
    }
  });

  it("pipelined requests are answered even if a malformed request follows", async () => {
    const raw = await dial(port.url, `${pipeline}GET / HTTP/1.1\r\nmalformed\r\n\r\n`);
    await waitFor("the connection is closed", () => raw.isClosed);
    const statuses = raw
      .received()
      .toString("latin1")
      .match(/(?<=HTTP\/1\.1 )\d+/g);
    expect(statuses).toEqual(Array(30).fill("200"));
  });

  it("pipelined requests are answered when the port drains", async () => {
    const own = await open({}, () => pause(20).then(() => ({ status: 200, headers: {}, body: "served" })));
    try {
      const raw = await dial(own.url, pipeline);
      await answeredHttp1(raw);
      await own.drain();
      const responses = raw
        .received()
        .toString("latin1")
        .split(/(?=HTTP\/1\.1 )/);
      expect(responses).toHaveLength(30);
      expect(responses.filter((text) => /^connection: close/im.test(text))).toEqual(responses.slice(-1));
    } finally {
      own.destroy();
    }
  });
});

describe("a port that drains", () => {
  it("sends `Connection: close` in the next response on a keep-alive HTTP/1.1 connection, and closes the connection", async () => {
    const port = await open({});
    const [idle, fresh] = [await dial(port.url), await dial(port.url)];
    idle.push(HTTP1_GET);
    await answeredHttp1(idle);
    expect(idle.received().toString("latin1")).not.toMatch(/connection: close/i);
    const drained = port.drain(600_000);
    try {
      idle.push(HTTP1_GET);
      fresh.push(HTTP1_GET);
      await waitFor("both connections are closed", () => idle.isClosed && fresh.isClosed);
      await drained;
      for (const raw of [idle, fresh]) {
        const last = raw
          .received()
          .toString("latin1")
          .split(/(?=HTTP\/1\.1 )/)
          .at(-1);
        expect(last).toMatch(/^HTTP\/1\.1 200 [\s\S]*connection: close\r\n[\s\S]*served$/i);
      }
    } finally {
      port.destroy();
    }
  });

  it("closes an idle HTTP/1.1 connection without a response", async () => {
    const port = await open({});
    const raw = await dial(port.url);
    raw.push(HTTP1_GET);
    await answeredHttp1(raw);
    try {
      await port.drain(60);
      await waitFor("the connection is closed", () => raw.isClosed);
      expect(raw.received().toString("latin1").split("HTTP/1.1 ")).toHaveLength(2);
    } finally {
      port.destroy();
    }
  });

  it("closes two connections that a client opened from one port to two addresses", async () => {
    const port = await open({}, undefined, "0.0.0.0");
    const to = { port: Number(new URL(port.url).port), localAddress: "127.0.0.1" };
    const first = connect({ ...to, host: "127.0.0.1" });
    try {
      await once(first, "connect");
      const second = connect({ ...to, host: "127.0.0.2", localPort: first.localPort as number });
      await once(second, "connect");
      const wires = [first, second].map((socket) => new Wire(socket));
      opened.push(...wires);
      for (const wire of wires) {
        wire.push(HTTP1_GET);
        await answeredHttp1(wire);
      }
      void port.drain(60);
      // The timeout is shorter than a minute, because other limits close every idle connection after a minute.
      for (const wire of wires) await waitFor("the connection is closed", () => wire.isClosed, 20_000);
    } finally {
      port.destroy();
      first.destroy();
    }
  });

  it("responds to requests that arrived while the process was frozen", async () => {
    const port = await open({});
    const raw = await dial(port.url, HTTP1_GET);
    await answeredHttp1(raw);
    try {
      const drained = port.drain(60);
      raw.push(HTTP1_GET);
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 300);
      await waitFor("the connection is closed", () => raw.isClosed);
      expect(raw.received().toString("latin1").split("HTTP/1.1 200 ")).toHaveLength(3);
      await drained;
    } finally {
      port.destroy();
    }
  });

  it("does not wait for connections that have sent nothing, or only part of the preface", async () => {
    const port = await open({ firstByteTimeoutMs: 600_000 });
    const raws = [await dial(port.url), await dial(port.url), await dial(port.url)];
    raws[1]?.push("PRI * H");
    raws[2]?.push(HTTP1_GET);
    await answeredHttp1(raws[2] as Wire);
    let drained = false;
    const draining = port.drain().then(() => {
      drained = true;
    });
    try {
      await waitFor("the port has drained", () => drained);
      for (const raw of raws) await waitFor("the connection is closed", () => raw.isClosed);
    } finally {
      port.destroy();
      await draining;
    }
  });
});
