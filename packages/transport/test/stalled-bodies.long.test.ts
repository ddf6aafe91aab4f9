import type { Wire } from "@user-group-service/testing/attacks/wire";
import { FRAME, frame, HELLO, requestHeaders } from "@user-group-service/testing/http2-frames";
import { VARIANTS } from "@user-group-service/testing/variants";
import { waitFor } from "@user-group-service/testing/wait";
import { describe, expect, it } from "vitest";
import { MIB, statusOn, watchedPort } from "./support/watched-port.ts";

describe.each(VARIANTS)("stalled bodies on $runtime, TLS $secure:", ({ runtime, tls }) => {
  const { raws, dial, heldBytes } = watchedPort(runtime, { arrivalTimeoutMs: 1500, tls: tls?.server });

  it("a request with a stalled body ends with status 408, even if no part of the body has arrived", async () => {
    const none = await dial();
    none.push(Buffer.concat([HELLO, requestHeaders(1, {})]));
    const one = await dial();
    one.push(Buffer.concat([HELLO, requestHeaders(1, {}), frame(FRAME.data, 0, 1, Buffer.from("half"))]));
    const http1 = await dial("http/1.1");
    http1.push("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf");
    for (const raw of [none, one]) {
      await waitFor("the server answers with a timeout", () => statusOn(raw, 1) === "408");
      // The connection still serves other requests.
      raw.push(requestHeaders(3, { ":method": "GET" }, { endStream: true }));
      await waitFor("the server answers the next request", () => statusOn(raw, 3) === "200");
      await waitFor("the server resets the first request", () =>
        raw.frames().some(({ type, stream }) => type === FRAME.reset && stream === 1),
      );
    }
    await waitFor("the server answers with a timeout over HTTP/1.1", () =>
      http1.received().toString("latin1").startsWith("HTTP/1.1 408"),
    );
    await waitFor("the server closes the HTTP/1.1 connection", () => http1.isClosed);
  });

  it("stalled bodies take limited memory", async () => {
    const before = await heldBytes();
    const streams = Array.from({ length: 100 }, (_, i) => 2 * i + 1);
    const half = Buffer.alloc(200, "a");
    const sent = Buffer.concat([
      HELLO,
      ...streams.flatMap((stream) => [requestHeaders(stream, {}), frame(FRAME.data, 0, stream, half)]),
      frame(FRAME.ping, 0, 0, Buffer.alloc(8)),
    ]);
    for (let i = 0; i < 150; i++) (await dial()).push(sent);
    for (const raw of raws)
      await waitFor(
        "the server has read the bodies",
        () => raw.isClosed || raw.frames().some(({ type }) => type === FRAME.ping),
      );
    expect((await heldBytes()) - before).toBeLessThan(160 * MIB);
    const areAnswered = (raw: Wire) =>
      raw.frames().filter(({ type }) => type === FRAME.headers).length === streams.length;
    for (const raw of raws) await waitFor("the server answers all requests", () => raw.isClosed || areAnswered(raw));
    expect(raws.some(areAnswered)).toBe(true);
    for (const { socket } of raws.splice(0)) socket.destroy();
    await waitFor("the server frees the memory", async () => (await heldBytes()) - before < 24 * MIB);
  });
});
