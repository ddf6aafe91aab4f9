import { constants } from "node:http2";
import type { Wire } from "@user-group-service/testing/attacks/wire";
import { FLAG, FRAME, frame, HELLO, numberFrame, requestHeaders } from "@user-group-service/testing/http2-frames";
import { VARIANTS } from "@user-group-service/testing/variants";
import { pause, waitFor } from "@user-group-service/testing/wait";
import { describe, expect, it } from "vitest";
import { pinged, statusOn, watchedPort } from "./support/watched-port.ts";

/**
 * Returns the frames that reset a stream. Omits resets with NO_ERROR, because the server sends such a reset after an
 * early answer.
 */
const resetsOf = (raw: Wire) =>
  raw
    .frames()
    .filter(({ type, payload }) => type === FRAME.reset && payload.readUInt32BE() !== constants.NGHTTP2_NO_ERROR);
const textOf = (raw: Wire) => raw.received().toString("latin1");
const statusOf = (raw: Wire) => /^HTTP\/1\.1 (\d+)/.exec(textOf(raw))?.[1];

const streamIds = (count: number) => Array.from({ length: count }, (_, i) => 2 * i + 1);

const CONNECTIONS = 120;
const STREAMS = 20;
const HEADER_MS = 1500;
const [OTHER_CLIENT, PROXY] = ["127.0.0.2", "127.0.0.9"];

describe.each(VARIANTS)("limits per client on $runtime, TLS $secure:", ({ runtime, tls }) => {
  const { port, raws, dial, heldBytes } = watchedPort(runtime, {
    maxConnections: CONNECTIONS,
    headerTimeoutMs: HEADER_MS,
    // On a busy machine, a body needs some time to arrive.
    openArrivalTimeoutMs: 4000,
    streams: { max: STREAMS, lifetimeMs: 60_000 },
    proxy: PROXY,
    tls: tls?.server,
  });

  const startUpload = async (from?: string) => {
    const raw = await dial("http/1.1", from);
    raw.push("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 20000\r\n\r\n");
    raw.push(Buffer.alloc(10_000));
    await pause(50);
    return raw;
  };
  const endUpload = async (raw: Wire) => {
    raw.push(Buffer.alloc(10_000));
    await waitFor("the server answers the upload", () => statusOf(raw) !== undefined || raw.isClosed);
    return statusOf(raw);
  };
  /** Opens HTTP/1.1 connections, and sends nearly 1 MiB of a body on each. */
  const longHalfBodies = (connections: number, from: string) =>
    Promise.all(
      Array.from({ length: connections }, async () => {
        const raw = await dial("http/1.1", from);
        raw.push("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1048576\r\n\r\n");
        raw.push(Buffer.alloc(1_000_000));
        return raw;
      }),
    );
  /** Opens connections. On 100 streams of each connection, sends a part of a body to an open method. */
  const shortHalfBodies = async (connections: number) => {
    const opened: Wire[] = [];
    for (let i = 0; i < connections; i++) {
      const raw = await dial();
      const half = streamIds(100).flatMap((stream) => [
        requestHeaders(stream, { ":path": "/open" }),
        frame(FRAME.data, 0, stream, Buffer.from("half")),
      ]);
      raw.push(Buffer.concat([HELLO, ...half]));
      opened.push(raw);
    }
    for (const raw of opened) await pinged(raw);
    return opened;
  };
  const refusedOf = (opened: readonly Wire[]) =>
    opened.reduce((sum, raw) => sum + raw.frames().filter(({ type }) => type === FRAME.headers).length, 0);
  const closeAll = async () => {
    for (const { socket } of raws.splice(0)) socket.destroy();
    await pause(50);
  };

  it("incomplete bodies of one client do not end slow uploads of other clients", async () => {
    const upload = await startUpload();
    // The buffer of a body is up to 50 % larger than the body. So fewer than 64 bodies of nearly 1 MiB fit into the
    // budget of 64 MiB.
    const opened = await longHalfBodies(90, OTHER_CLIENT);
    const refused = () => opened.filter((raw) => statusOf(raw) === "503").length;
    await waitFor("the server refuses the bodies beyond the budget", () => refused() > 20);
    const other = await startUpload("127.0.0.3");
    expect(await endUpload(upload)).toBe("200");
    expect(await endUpload(other)).toBe("200");
    expect(opened.length - refused()).toBeGreaterThan(40);
    await closeAll();
  });

  it("incomplete bodies of unauthenticated requests do not use the budget for bodies and have a short deadline", async () => {
    const upload = await startUpload();
    const before = await heldBytes();
    const opened = await shortHalfBodies(3);
    await waitFor("the server refuses nearly all bodies", () => refusedOf(opened) >= 300 - STREAMS);
    // The upload succeeds, although it comes from the same address as the half bodies.
    expect(await endUpload(upload)).toBe("200");
    await waitFor("the server answers the remaining bodies with a timeout", () => refusedOf(opened) === 300);
    await closeAll();
    await waitFor("the server frees the memory", async () => (await heldBytes()) - before < 24 * 1024 * 1024);
  });

  it("the body of an unauthenticated request may arrive a little later than the headers, as with gRPC clients", async () => {
    const [overHttp2, overHttp1] = [await dial(), await dial("http/1.1")];
    overHttp2.push(Buffer.concat([HELLO, requestHeaders(1, { ":path": "/open" })]));
    overHttp1.push("POST /open HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\n");
    await pinged(overHttp2);
    await pause(300);
    overHttp2.push(frame(FRAME.data, FLAG.endStream, 1, Buffer.from("body")));
    overHttp1.push("body");
    await waitFor(
      "the server answers the requests",
      () => statusOn(overHttp2, 1) === "200" && statusOf(overHttp1) === "200",
    );
  });

  it("the server resets streams of the largest client until another client has the same number of streams", async () => {
    const open = (streams: readonly number[], fields: { [name: string]: string } = {}) =>
      Buffer.concat(streams.map((stream) => requestHeaders(stream, { ":path": "/stream", ...fields })));
    const many = [await dial("h2", OTHER_CLIENT), await dial("h2", OTHER_CLIENT)];
    for (const raw of many) {
      raw.push(Buffer.concat([HELLO, open(streamIds(STREAMS / 2 + 1))]));
      await pinged(raw);
    }
    await waitFor(
      "the server refuses the stream beyond the limit",
      () => statusOn(many[1] as Wire, STREAMS - 1) === "429",
    );
    const few = await dial();
    few.push(Buffer.concat([HELLO, open(streamIds(STREAMS / 2 + 1))]));
    await pinged(few);
    // The second client gets half of all streams. The server refuses the next stream of this client.
    await waitFor("the server refuses the last stream", () => statusOn(few, STREAMS + 1) === "429");
    expect(few.frames().filter(({ type }) => type === FRAME.headers)).toHaveLength(1);
    expect(resetsOf(few)).toEqual([]);
    const resets = () => many.flatMap((raw) => resetsOf(raw));
    await waitFor(
      "the server has reset half of the streams of the first client",
      () => resets().length === STREAMS / 2,
    );
    for (const { payload } of resets()) expect(payload.readUInt32BE()).toBe(constants.NGHTTP2_ENHANCE_YOUR_CALM);
    // The clients reset all streams, so that the budget is free again.
    for (const raw of [...many, few]) {
      raw.push(Buffer.concat(streamIds(STREAMS / 2 + 1).map((stream) => numberFrame(FRAME.reset, stream, 8))));
      await pinged(raw);
    }
    // The server must distinguish the clients of a proxy, even if they share connections.
    await closeAll();
    const proxy = await dial("h2", PROXY);
    proxy.push(Buffer.concat([HELLO, open(streamIds(STREAMS), { "x-forwarded-for": "a" })]));
    await pinged(proxy);
    const next = 2 * STREAMS + 1;
    proxy.push(open([next], { "x-forwarded-for": "b" }));
    proxy.push(open([next + 2], { "x-forwarded-for": "a" }));
    await pinged(proxy);
    await waitFor("client a has too many streams", () => statusOn(proxy, next + 2) === "429");
    await waitFor("the server has reset the oldest stream", () => resetsOf(proxy).some(({ stream }) => stream === 1));
    expect([resetsOf(proxy).some(({ stream }) => stream === next), statusOn(proxy, next)]).toEqual([false, undefined]);
    await closeAll();
  });

  it("connections that send header bytes slowly do not block other clients", async () => {
    const drip = async () => {
      const raw = await dial("http/1.1", OTHER_CLIENT);
      raw.push("GET / HTTP/1.1\r\nHost: x\r\nX: ");
      return raw;
    };
    const dripping = await Promise.all(Array.from({ length: CONNECTIONS }, drip));
    const timer = setInterval(() => {
      for (const raw of dripping) if (!raw.isClosed) raw.push("a");
    }, 100);
    try {
      await pause(300);
      for (let i = 0; i < 10; i++) {
        const raw = await dial("http/1.1");
        raw.push("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
        await waitFor("the server answers or closes the connection", () => raw.isClosed || statusOf(raw) !== undefined);
        expect(statusOf(raw)).toBe("200");
        // The attacker opens another connection, so the server must close a slow connection again.
        dripping.push(await drip());
      }
    } finally {
      clearInterval(timer);
    }
    await closeAll();
  });

  // This test stops the server while connections open. Over TLS, the stopped server could not answer the handshakes.
  if (!tls) {
    it("a client that opens many HTTP/2 connections does not delay a new connection of another client", async () => {
      port.signal("SIGSTOP");
      const flood = await Promise.all(Array.from({ length: 80 }, () => dial()));
      const requests = streamIds(100).map((stream) => requestHeaders(stream, { ":path": "/" }));
      for (const raw of flood) raw.push(Buffer.concat([HELLO, ...requests]));
      const other = await dial("http/1.1", OTHER_CLIENT);
      other.push("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
      port.signal("SIGCONT");
      await waitFor("the server answers the other client", () => statusOf(other) !== undefined);
      expect(flood.filter((raw) => raw.received().length > 0).length).toBeLessThan(40);
      await closeAll();
    });
  }

  it("connections of a trusted proxy are never closed to make room for other clients", async () => {
    const opened = await Promise.all(Array.from({ length: CONNECTIONS - 2 }, () => dial("h2", PROXY)));
    for (const raw of opened) raw.push(Buffer.concat([HELLO, requestHeaders(1, { ":path": "/stream" })]));
    for (const raw of opened) await pinged(raw);
    const direct = [await dial("h2"), await dial("h2")];
    for (const raw of direct) {
      raw.push(HELLO);
      await pinged(raw);
    }
    const another = await dial("h2", PROXY);
    another.push(HELLO);
    await pinged(another);
    await waitFor("the server closes a connection that does not come from the proxy", () =>
      direct.some((raw) => raw.isClosed),
    );
    const late = await dial("http/1.1", OTHER_CLIENT);
    late.push("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    await waitFor("the server answers or closes the connection", () => late.isClosed || statusOf(late) !== undefined);
    expect(opened.filter((raw) => raw.isClosed)).toEqual([]);
    await closeAll();
  });

  it("headers that arrive byte by byte are answered with 408, for the first and later requests of a connection", async () => {
    const [first, later] = [await dial("http/1.1"), await dial("http/1.1")];
    later.push("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    await waitFor("the server answers the first request", () => statusOf(later) === "200");
    await pause(HEADER_MS);
    for (const raw of [first, later]) raw.push("GET / HTTP/1.1\r\nHost: x\r\nX: ");
    const timer = setInterval(() => {
      for (const raw of [first, later]) if (!raw.isClosed) raw.push("a");
    }, 200);
    try {
      await waitFor("the server closes the connections", () => first.isClosed && later.isClosed);
    } finally {
      clearInterval(timer);
    }
    expect(statusOf(first)).toBe("408");
    expect(textOf(later)).toContain("HTTP/1.1 408");
  });
});
