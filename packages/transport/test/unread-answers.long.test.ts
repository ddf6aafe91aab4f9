import { FRAME, frame, HELLO, numberFrame, requestHeaders, settings } from "@user-group-service/testing/http2-frames";
import { descriptorsOf } from "@user-group-service/testing/process-usage";
import { VARIANTS } from "@user-group-service/testing/variants";
import { waitFor } from "@user-group-service/testing/wait";
import { describe, it } from "vitest";
import { MIB, watchedPort } from "./support/watched-port.ts";

// The variants run concurrently, because these tests mostly wait. Each variant has its own server.
describe.concurrent.each(VARIANTS)("unread answers on $runtime, TLS $secure:", ({ runtime, tls }) => {
  const { port, raws, dial, memory, heldBytes } = watchedPort(runtime, { readTimeoutMs: 1500, tls: tls?.server });

  it.sequential("unread answers end if the client makes no progress, even if the client sends PINGs", async () => {
    const before = await heldBytes();
    const streams = Array.from({ length: 100 }, (_, i) => 2 * i + 1);
    const windows = settings([4, 100]);
    const requests = streams.map((stream) => requestHeaders(stream, { "x-bytes": "125000" }, { endStream: true }));
    for (let i = 0; i < 15; i++) (await dial()).push(Buffer.concat([HELLO, windows, ...requests]));
    const pings = setInterval(() => {
      for (const raw of raws) if (!raw.isClosed) raw.push(frame(FRAME.ping, 0, 0, Buffer.alloc(8)));
    }, 100);
    try {
      // Reading one byte every half second does not count as progress.
      const trickle = setInterval(() => {
        for (const raw of raws) if (!raw.isClosed) raw.push(numberFrame(FRAME.windowUpdate, 1, 1));
      }, 500);
      for (const raw of raws) await waitFor("the server closes the connection", () => raw.isClosed);
      clearInterval(trickle);
    } finally {
      clearInterval(pings);
    }
    await waitFor("the server frees the memory", async () => (await heldBytes()) - before < 24 * MIB);
  });

  it.sequential("the server closes a connection if the client reads no answer at all", async () => {
    const before = await heldBytes();
    const open = descriptorsOf(port.pid);
    const { served } = await memory();
    const windows = settings([4, 2 ** 31 - 1]);
    const window = numberFrame(FRAME.windowUpdate, 0, 2 ** 30);
    const requests = Array.from({ length: 100 }, (_, i) =>
      requestHeaders(2 * i + 1, { "x-bytes": "1000000" }, { endStream: true }),
    );
    const overHttp2 = await dial();
    const pipelined = await dial("http/1.1");
    for (const { socket } of [overHttp2, pipelined]) socket.pause();
    overHttp2.push(Buffer.concat([HELLO, windows, window, ...requests]));
    pipelined.push("GET / HTTP/1.1\r\nHost: x\r\nx-bytes: 1000000\r\n\r\n".repeat(100));
    await waitFor("the server answers the requests", async () => (await memory()).served > served);
    // A client that does not read cannot detect that its connection is closed, so count the descriptors of the server.
    await waitFor("the server has closed the connections", () => descriptorsOf(port.pid) <= open);
    await waitFor("the server frees the memory", async () => (await heldBytes()) - before < 24 * MIB);
    for (const raw of [overHttp2, pipelined]) {
      raw.socket.resume();
      await waitFor("the server closes the connection", () => raw.isClosed);
    }
  });
});
