import { openWire } from "@user-group-service/testing/attacks/wire";
import { http2On, openHttp2 } from "@user-group-service/testing/http";
import { FLAG, FRAME, frame, HELLO, numberFrame, requestHeaders } from "@user-group-service/testing/http2-frames";
import { descriptorsOf } from "@user-group-service/testing/process-usage";
import { VARIANTS } from "@user-group-service/testing/variants";
import { waitFor } from "@user-group-service/testing/wait";
import { describe, expect, it } from "vitest";
import { suitePort } from "./support/own-ports.ts";

/** Frames that must end the connection (RFC 9113, 5.4.1). */
const BREAKING: readonly Buffer[] = [
  Buffer.alloc(400, 0xa9),
  // These invalid bytes have the length of an answer to a PING.
  Buffer.alloc(17, 0xa9),
  requestHeaders(2, {}, { endStream: true }),
  frame(FRAME.data, FLAG.padded, 1, Buffer.of(200, 1, 2, 3)),
  numberFrame(FRAME.windowUpdate, 0, 0x7fffffff),
  frame(FRAME.settings, 0, 0, Buffer.alloc(5)),
];

const CHECK_MS = 300;

describe.each(VARIANTS)("HTTP/2 sessions on $runtime, TLS $secure", ({ runtime, tls }) => {
  const port = suitePort(runtime, { deadSessionCheckMs: CHECK_MS, tls: tls?.server });

  it.each([
    ["closes", true],
    ["keeps", false],
  ] as const)(
    "a session leaves no connection behind if the client breaks the protocol and %s the connection",
    async (_state, isClosed) => {
      const before = descriptorsOf(port.pid);
      const open = [];
      for (const breaking of BREAKING) {
        for (const withStream of [true, false]) {
          const raw = await openWire(port.url);
          open.push(raw);
          const begin = withStream ? [requestHeaders(1, { ":path": "/stream" })] : [];
          raw.push(Buffer.concat([HELLO, ...begin, breaking]));
        }
      }
      for (const raw of open) {
        const reported = () => raw.isClosed || raw.frames().some(({ type }) => type === FRAME.goAway);
        await waitFor("the client receives GOAWAY for the violation", reported);
        if (isClosed) raw.socket.destroy();
      }
      // The runtime itself opens some descriptors at first use.
      await waitFor("the server frees the descriptors", () => descriptorsOf(port.pid) <= before + 4);
      for (const { socket } of open) socket.destroy();
    },
  );

  it("a session ends if the header of the first or a later request arrives byte by byte", async () => {
    const raws = [await openWire(port.url), await openWire(port.url)];
    const [, later] = raws;
    later?.push(Buffer.concat([HELLO, requestHeaders(1, {}, { endStream: true })]));
    await waitFor("the first request is answered", () => later?.frames().some(({ type }) => type === FRAME.headers));
    // The frame declares a long payload, so the header stays incomplete.
    const begin = (stream: number) => Buffer.from([0, 0x20, 0, FRAME.headers, FLAG.endHeaders, 0, 0, 0, stream]);
    raws[0]?.push(Buffer.concat([HELLO, begin(1)]));
    later?.push(begin(3));
    const timer = setInterval(() => {
      for (const raw of raws) if (!raw.isClosed) raw.push(Buffer.of(0x82));
    }, CHECK_MS / 3);
    await waitFor("the server closes the connections", () => raws.every((raw) => raw.isClosed)).finally(() =>
      clearInterval(timer),
    );
  });

  it("a session ends if the client resets streams too fast, even if the client keeps sending", async () => {
    const before = descriptorsOf(port.pid);
    const raws = await Promise.all(Array.from({ length: 5 }, () => openWire(port.url)));
    for (const raw of raws) raw.push(HELLO);
    let stream = -1;
    const flood = setInterval(() => {
      const frames = Array.from({ length: 200 }, () => {
        stream += 2;
        return [requestHeaders(stream, {}, { endStream: true }), numberFrame(FRAME.reset, stream, 8)];
      });
      for (const raw of raws) if (raw.socket.writable) raw.push(Buffer.concat(frames.flat()));
    }, 50);
    try {
      await waitFor(
        "the server closes the connections",
        () => descriptorsOf(port.pid) <= before + 4 && raws.every((raw) => raw.isClosed),
      );
    } finally {
      clearInterval(flood);
    }
  });

  it("a session ends if the client has sent GOAWAY but keeps the connection open", async () => {
    const before = descriptorsOf(port.pid);
    const raws = await Promise.all(Array.from({ length: 5 }, () => openWire(port.url)));
    for (const raw of raws) {
      raw.socket.allowHalfOpen = true;
      raw.push(Buffer.concat([HELLO, frame(FRAME.goAway, 0, 0, Buffer.alloc(8))]));
    }
    await waitFor("the server has closed the connections", () => descriptorsOf(port.pid) <= before);
    for (const { socket } of raws) socket.destroy();
  });

  it("a session stays open if the silent client answers PINGs, and ends if the client does not answer", async () => {
    const session = openHttp2(port.url);
    let pings = 0;
    session.on("ping", () => {
      pings++;
    });
    const ask = async () => (await http2On(session, "/")).status;
    expect(await ask()).toBe(200);
    const mute = await openWire(port.url);
    mute.push(HELLO);
    await waitFor("the server closes the session that does not answer", () => mute.isClosed);
    await waitFor("the server has sent several PINGs", () => pings >= 5);
    expect(await ask()).toBe(200);
    session.destroy();
  });
});
