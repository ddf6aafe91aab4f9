import { connect as connectHttp2 } from "node:http2";
import { connect as connectTls } from "node:tls";
import { Wire } from "@user-group-service/testing/attacks/wire";
import { FRAME, HELLO, requestHeaders } from "@user-group-service/testing/http2-frames";
import { VARIANTS } from "@user-group-service/testing/variants";
import { waitFor } from "@user-group-service/testing/wait";
import { describe, expect, it } from "vitest";
import { pinged, statusOn, watchedPort } from "./support/watched-port.ts";

// The variants run concurrently, because these tests mostly wait. Each variant has its own server.
describe.concurrent.each(VARIANTS)("a port on $runtime, TLS $secure:", ({ runtime, tls }) => {
  const { port, raws, dial } = watchedPort(runtime, {
    maxConnections: 80,
    streams: { max: 6, lifetimeMs: 2000 },
    tls: tls?.server,
  });

  it.sequential("limits the number of streams and their duration", async () => {
    const [one, two] = [await dial(), await dial()];
    const open = (streams: number[]) => streams.map((stream) => requestHeaders(stream, { ":path": "/stream" }));
    one.push(Buffer.concat([HELLO, ...open([1, 3, 5, 7, 9])]));
    await pinged(one);
    two.push(Buffer.concat([HELLO, ...open([1, 3])]));
    await waitFor("the server refuses the seventh stream", () => statusOn(two, 3) === "429");
    const http1 = await dial("http/1.1");
    http1.push("POST /stream HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n");
    await waitFor("the server also refuses a stream over HTTP/1.1", () =>
      http1.received().toString("latin1").startsWith("HTTP/1.1 429"),
    );
    expect(one.frames().filter(({ type }) => type === FRAME.headers)).toHaveLength(0);
    await waitFor(
      "the deadline of the streams passes",
      () => one.frames().filter(({ type }) => type === FRAME.reset).length >= 5,
    );
    one.push(Buffer.concat(open([11])));
    await pinged(one);
    expect(statusOn(one, 11)).toBeUndefined();
  });

  it.sequential("closes silent connections at the limit, to accept new connections", async () => {
    for (let i = 0; i < 79; i++) await dial(i % 2 === 0 ? "h2" : "http/1.1");
    await waitFor("another client connects", async () => {
      const raw = await dial("http/1.1");
      raw.push("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
      await waitFor("the server answers or closes the connection", () => raw.isClosed || raw.received().length > 0);
      return raw.received().length > 0;
    });
    expect(raws.filter((raw) => !raw.isClosed).length).toBeLessThanOrEqual(80);
    for (const { socket } of raws.splice(0)) socket.destroy();
  });

  it.sequential("accepts at most 32 KiB of header fields", async () => {
    const [fits, large] = ["a".repeat(31 * 1024), "a".repeat(40 * 1024)];
    for (const [value, expected] of [
      [fits, "HTTP/1.1 200"],
      [large, "HTTP/1.1 431"],
    ] as const) {
      const raw = await dial("http/1.1");
      raw.push(`GET / HTTP/1.1\r\nHost: x\r\nx: ${value}\r\n\r\n`);
      await waitFor("the server answers", () => raw.received().toString("latin1").startsWith(expected));
    }
    const answer = (value: string) =>
      new Promise((resolve) => {
        const session = connectHttp2(port.url, { rejectUnauthorized: false });
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

  it.runIf(tls)("serves clients whose host name in the TLS handshake is not valid in a URL", async () => {
    const { hostname: host, port: number } = new URL(port.url);
    for (const servername of ["foo.0x1", "xn--0"]) {
      const offer = { host, port: Number(number), servername, ALPNProtocols: ["h2"], rejectUnauthorized: false };
      const raw = new Wire(connectTls(offer));
      raws.push(raw);
      raw.push(Buffer.concat([HELLO, requestHeaders(1, { ":method": "GET" }, { endStream: true })]));
      await waitFor("the server answers", () => statusOn(raw, 1) === "200");
    }
  });
});
