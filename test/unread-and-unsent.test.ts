import { connect as connectHttp2 } from "node:http2";
import { afterEach, describe, expect, it } from "vitest";
import { FLAG, FRAME, frame, HELLO, requestHeaders, setting, uint32 } from "./support/http2-frames.ts";
import { suitePort } from "./support/opened.ts";
import type { OwnPortOptions } from "./support/own-ports.ts";
import { descriptorsOf } from "./support/process-usage.ts";
import { framesIn, type RawSocket, rawConnect } from "./support/raw-socket.ts";
import { VARIANTS } from "./support/variants.ts";
import { waitFor } from "./support/wait.ts";

const MIB = 1024 * 1024;
const LIMITS: OwnPortOptions = {
  arrivalTimeoutMs: 1500,
  readTimeoutMs: 1500,
  streams: { max: 6, maxOfConnection: 4, lifetimeMs: 2000 },
};

/** A port that does not hurry those who send much. */
const PATIENT: OwnPortOptions = { maxConnections: 80 };

/** What a port holds, in bytes, and what it did. */
interface Memory {
  readonly rss: number;
  readonly heapUsed: number;
  readonly external: number;
  readonly served: number;
  readonly failures: number;
}

// They mostly wait, each for a server of its own.
describe.concurrent.each(VARIANTS)("on $runtime, TLS $secure", ({ runtime, tls }) => {
  const port = suitePort(runtime, { ...LIMITS, tls: tls?.server }, 128);
  const patient = suitePort(runtime, { ...PATIENT, tls: tls?.server }, 128);
  const raws: RawSocket[] = [];
  afterEach(async () => {
    for (const { socket } of raws.splice(0)) socket.destroy();
    for (const each of [port, patient]) {
      expect(each.output()).not.toMatch(/uncaught|unhandled|warning|heap/i);
      expect(each.isRunning()).toBe(true);
      expect((await memory(each)).failures).toBe(0);
    }
  });

  async function dial(alpn: "h2" | "http/1.1" = "h2", to = port): Promise<RawSocket> {
    const raw = await rawConnect(to.url, alpn);
    raws.push(raw);
    return raw;
  }

  /** On a connection of its own, which is tried again where there is no room for one. */
  async function memory(of = port): Promise<Memory> {
    return waitFor("it tells what it holds", async () => {
      const raw = await rawConnect(of.url, "http/1.1");
      raw.send("GET /memory HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
      await waitFor("it is answered", () => raw.isClosed());
      const text = raw.received().toString();
      return text === "" ? undefined : (JSON.parse(text.slice(text.indexOf("\r\n\r\n"))) as Memory);
    });
  }

  const heldBytes = async (of = port) => {
    const { heapUsed, external } = await memory(of);
    return heapUsed + external;
  };
  const frames = (raw: RawSocket) => framesIn(raw.received());
  /** The status of the answer on a stream, which HPACK has in its table or in the clear. */
  const statusOn = (raw: RawSocket, stream: number) => {
    const headers = frames(raw).find((one) => one.type === FRAME.headers && one.stream === stream);
    if (!headers) return undefined;
    return headers.payload[0] === 0x88 ? "200" : /\d{3}/.exec(headers.payload.subarray(0, 6).toString("latin1"))?.[0];
  };

  it.sequential("takes bodies of one-byte pieces in no more memory than their bytes", async () => {
    const pieces = 120_000;
    const overHttp1 = await Promise.all([dial("http/1.1", patient), dial("http/1.1", patient)]);
    const overHttp2 = await Promise.all([dial("h2", patient), dial("h2", patient)]);
    for (const raw of overHttp1) raw.send("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (const raw of overHttp2) raw.send(Buffer.concat([HELLO, requestHeaders(1, {})]));
    const before = await heldBytes(patient);
    const many = 10_000;
    const piece1 = Buffer.from("1\r\na\r\n".repeat(many));
    const piece2 = Buffer.concat(Array.from({ length: many }, () => frame(FRAME.data, 0, 1, Buffer.from("a"))));
    const sendAll = (raw: RawSocket, bytes: Buffer) =>
      new Promise<void>((resolve) => raw.socket.write(bytes, () => resolve()));
    await Promise.all([
      ...overHttp1.map(async (raw) => {
        for (let sent = 0; sent < pieces; sent += many) await sendAll(raw, piece1);
      }),
      ...overHttp2.map(async (raw) => {
        // The window of a stream is 64 KiB at first.
        let granted = 65_535;
        for (let sent = 0; sent < pieces; sent += many) {
          await waitFor("there is a window", () => {
            granted = 65_535 + windowOf(frames(raw), 1);
            return granted - sent >= many;
          });
          await sendAll(raw, piece2);
        }
      }),
    ]);
    expect((await heldBytes(patient)) - before).toBeLessThan(24 * MIB);
    for (const raw of overHttp1) raw.send("0\r\n\r\n");
    for (const raw of overHttp2) raw.send(frame(FRAME.data, FLAG.endStream, 1));
    for (const raw of overHttp1)
      await waitFor("it is answered", () => raw.received().toString("latin1").startsWith("HTTP/1.1 200"));
    for (const raw of overHttp2) await waitFor("it is answered", () => statusOn(raw, 1) === "200");
  });

  it.sequential("answers bodies of no piece, or of one, that do not end", async () => {
    const none = await dial();
    none.send(Buffer.concat([HELLO, requestHeaders(1, {})]));
    const one = await dial();
    one.send(Buffer.concat([HELLO, requestHeaders(1, {}), frame(FRAME.data, 0, 1, Buffer.from("half"))]));
    const http1 = await dial("http/1.1");
    http1.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf");
    for (const raw of [none, one]) {
      await waitFor("it is told that it took too long", () => statusOn(raw, 1) === "408");
      // The connection is there for others.
      raw.send(requestHeaders(3, { ":method": "GET" }, { endStream: true }));
      await waitFor("the next is answered", () => statusOn(raw, 3) === "200");
      await waitFor("the first is reset", () =>
        frames(raw).some(({ type, stream }) => type === FRAME.reset && stream === 1),
      );
    }
    await waitFor("it is told over HTTP/1.1", () => http1.received().toString("latin1").startsWith("HTTP/1.1 408"));
    await waitFor("and closed", () => http1.isClosed());
  });

  it.sequential("bounds what half bodies hold", async () => {
    const before = await heldBytes();
    const streams = Array.from({ length: 250 }, (_, i) => 2 * i + 1);
    const half = Buffer.alloc(200, "a");
    const sent = Buffer.concat([
      HELLO,
      ...streams.flatMap((stream) => [requestHeaders(stream, {}), frame(FRAME.data, 0, stream, half)]),
      frame(FRAME.ping, 0, 0, Buffer.alloc(8)),
    ]);
    for (let i = 0; i < 60; i++) (await dial()).send(sent);
    for (const raw of raws)
      await waitFor("it is read", () => raw.isClosed() || frames(raw).some(({ type }) => type === FRAME.ping));
    expect((await heldBytes()) - before).toBeLessThan(160 * MIB);
    for (const raw of raws)
      await waitFor("all are answered", () => frames(raw).filter(({ type }) => type === FRAME.headers).length === 250);
    for (const { socket } of raws.splice(0)) socket.destroy();
    await waitFor("it is given back", async () => (await heldBytes()) - before < 24 * MIB);
  });

  it.sequential("answers each of 200 oversized messages on one connection, and goes on", async () => {
    const session = connectHttp2(patient.url, { rejectUnauthorized: false });
    session.on("error", () => {});
    const send = (body: Buffer | undefined) =>
      new Promise<number | undefined>((resolve, reject) => {
        const stream = session.request({ ":method": "POST", ":path": "/" }, { endStream: body === undefined });
        let status: number | undefined;
        stream.on("response", (headers) => {
          status = headers[":status"];
        });
        stream.on("error", reject);
        stream.on("close", () => resolve(status));
        stream.resume();
        if (body) stream.end(body);
      });
    const body = Buffer.alloc(MIB + 300_000);
    for (let turn = 0; turn < 50; turn++) {
      const statuses = await Promise.all([send(body), send(body), send(body), send(body)]);
      expect(statuses).toEqual([413, 413, 413, 413]);
    }
    expect(await send(undefined)).toBe(200);
    expect(session.destroyed).toBe(false);
    session.destroy();
  });

  it.sequential("resets an oversized message that does not end, once it is answered", async () => {
    const session = connectHttp2(patient.url, { rejectUnauthorized: false });
    session.on("error", () => {});
    const stream = session.request({ ":method": "POST", ":path": "/" }, { endStream: false });
    let status: number | undefined;
    stream.on("response", (headers) => {
      status = headers[":status"];
    });
    stream.on("error", () => {});
    stream.resume();
    const closed = new Promise<void>((resolve) => stream.once("close", resolve));
    const piece = Buffer.alloc(MIB);
    const more = () => {
      if (!stream.destroyed && !stream.closed) stream.write(piece, () => setImmediate(more));
    };
    more();
    await closed;
    expect([status, stream.rstCode]).toEqual([413, 0]);
    const next = session.request({ ":path": "/" });
    expect(await new Promise((resolve) => next.once("response", (headers) => resolve(headers[":status"])))).toBe(200);
    session.destroy();
  });

  it.sequential("ends who reads no answers, PINGs or not", async () => {
    const before = await heldBytes();
    const streams = Array.from({ length: 100 }, (_, i) => 2 * i + 1);
    const settings = frame(FRAME.settings, 0, 0, setting(4, 100));
    const requests = streams.map((stream) => requestHeaders(stream, { "x-bytes": "125000" }, { endStream: true }));
    for (let i = 0; i < 15; i++) (await dial()).send(Buffer.concat([HELLO, settings, ...requests]));
    const pings = setInterval(() => {
      for (const raw of raws) if (!raw.isClosed()) raw.send(frame(FRAME.ping, 0, 0, Buffer.alloc(8)));
    }, 100);
    try {
      // A byte now and then is no progress either.
      const trickle = setInterval(() => {
        for (const raw of raws) if (!raw.isClosed()) raw.send(frame(FRAME.windowUpdate, 0, 1, uint32(1)));
      }, 500);
      for (const raw of raws) await waitFor("it is closed", () => raw.isClosed());
      clearInterval(trickle);
    } finally {
      clearInterval(pings);
    }
    await waitFor("it is given back", async () => (await heldBytes()) - before < 24 * MIB);
  });

  it.sequential("ends who reads nothing at all", async () => {
    const before = await heldBytes();
    const open = descriptorsOf(port.pid);
    const { served } = await memory();
    const settings = frame(FRAME.settings, 0, 0, setting(4, 2 ** 31 - 1));
    const window = frame(FRAME.windowUpdate, 0, 0, uint32(2 ** 30));
    const requests = Array.from({ length: 100 }, (_, i) =>
      requestHeaders(2 * i + 1, { "x-bytes": "1000000" }, { endStream: true }),
    );
    const overHttp2 = await dial();
    const pipelined = await dial("http/1.1");
    for (const { socket } of [overHttp2, pipelined]) socket.pause();
    overHttp2.send(Buffer.concat([HELLO, settings, window, ...requests]));
    pipelined.send("GET / HTTP/1.1\r\nHost: x\r\nx-bytes: 1000000\r\n\r\n".repeat(100));
    await waitFor("they are served", async () => (await memory()).served > served);
    // Who does not read does not see that they are closed.
    await waitFor("the server has closed them", () => descriptorsOf(port.pid) <= open);
    await waitFor("it is given back", async () => (await heldBytes()) - before < 24 * MIB);
    for (const raw of [overHttp2, pipelined]) {
      raw.socket.resume();
      await waitFor("it is closed", () => raw.isClosed());
    }
  });

  it.sequential("limits streams, of one connection and of all, and how long they last", async () => {
    const [one, two] = [await dial(), await dial()];
    const open = (streams: number[]) => streams.map((stream) => requestHeaders(stream, { ":path": "/fallback" }));
    one.send(Buffer.concat([HELLO, ...open([1, 3, 5, 7, 9])]));
    await waitFor("the fifth of a connection is refused", () => statusOn(one, 9) === "429");
    two.send(Buffer.concat([HELLO, ...open([1, 3, 5])]));
    await waitFor("the seventh of all is refused", () => statusOn(two, 5) === "429");
    const http1 = await dial("http/1.1");
    http1.send("POST /fallback HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n");
    await waitFor("so it is over HTTP/1.1", () => http1.received().toString("latin1").startsWith("HTTP/1.1 429"));
    expect(frames(one).filter(({ type }) => type === FRAME.headers)).toHaveLength(1);
    await waitFor("their time is up", () => frames(one).filter(({ type }) => type === FRAME.reset).length >= 4);
    one.send(Buffer.concat(open([11])));
    await new Promise((resolve) => setTimeout(resolve, 200));
    expect(statusOn(one, 11)).toBeUndefined();
  });

  it.sequential("limits connections, and closes those that are silent for others", async () => {
    for (let i = 0; i < 79; i++) await dial(i % 2 === 0 ? "h2" : "http/1.1", patient);
    await waitFor("somebody else gets in", async () => {
      const raw = await dial("http/1.1", patient);
      raw.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
      await waitFor("it is answered or closed", () => raw.isClosed() || raw.received().length > 0);
      return raw.received().length > 0;
    });
    expect(raws.filter((raw) => !raw.isClosed()).length).toBeLessThanOrEqual(80);
    for (const { socket } of raws.splice(0)) socket.destroy();
  });

  it.sequential("takes 32 KiB of header fields, and no more", async () => {
    const [fits, large] = ["a".repeat(31 * 1024), "a".repeat(40 * 1024)];
    for (const [value, expected] of [
      [fits, "HTTP/1.1 200"],
      [large, "HTTP/1.1 431"],
    ] as const) {
      const raw = await dial("http/1.1", patient);
      raw.send(`GET / HTTP/1.1\r\nHost: x\r\nx: ${value}\r\n\r\n`);
      await waitFor("it is answered", () => raw.received().toString("latin1").startsWith(expected));
    }
    const answer = (value: string) =>
      new Promise((resolve) => {
        const session = connectHttp2(patient.url, { rejectUnauthorized: false });
        session.on("error", resolve);
        const stream = session.request({ ":path": "/", x: value.slice(0, 20_000), y: value.slice(20_000) });
        stream.on("error", () => resolve("refused"));
        stream.on("response", (headers) => resolve(headers[":status"]));
        stream.on("close", () => {
          resolve("refused");
          session.destroy();
        });
      });
    expect([await answer(fits), await answer(large)]).toEqual([200, 431]);
  });
});

/** How much WINDOW_UPDATE frames granted to a stream. */
function windowOf(frames: ReturnType<typeof framesIn>, stream: number): number {
  return frames
    .filter((one) => one.type === FRAME.windowUpdate && one.stream === stream)
    .reduce((sum, { payload }) => sum + payload.readUInt32BE(), 0);
}
