import { describe, expect, it } from "vitest";
import { http2On, openHttp2 } from "./support/http.ts";
import { FLAG, FRAME, frame, HELLO, numberFrame, requestHeaders } from "./support/http2-frames.ts";
import { suitePort } from "./support/opened.ts";
import { descriptorsOf } from "./support/process-usage.ts";
import { framesIn, rawConnect } from "./support/raw-socket.ts";
import { VARIANTS } from "./support/variants.ts";
import { pause, waitFor } from "./support/wait.ts";

/** Frames that no connection survives (RFC 9113, 5.4.1). */
const BREAKING: readonly Buffer[] = [
  Buffer.alloc(400, 0xa9),
  // As many bytes as the answer to a PING has.
  Buffer.alloc(17, 0xa9),
  requestHeaders(2, {}, { endStream: true }),
  frame(FRAME.data, FLAG.padded, 1, Buffer.of(200, 1, 2, 3)),
  numberFrame(FRAME.windowUpdate, 0, 0x7fffffff),
  frame(FRAME.settings, 0, 0, Buffer.alloc(5)),
];

const LOOK_MS = 300;

describe.each(VARIANTS)("HTTP/2 sessions on $runtime, TLS $secure", ({ runtime, tls }) => {
  const port = suitePort(runtime, { deadSessionCheckMs: LOOK_MS, tls: tls?.server });

  it.each([
    ["closed", true],
    ["kept", false],
  ] as const)("that break the protocol leave no connection, when it is %s", async (_state, isClosed) => {
    const before = descriptorsOf(port.pid);
    const open = [];
    for (const breaking of BREAKING) {
      for (const withStream of [true, false]) {
        const raw = await rawConnect(port.url);
        open.push(raw);
        const begin = withStream ? [requestHeaders(1, { ":path": "/stream" })] : [];
        raw.send(Buffer.concat([HELLO, ...begin, breaking]));
      }
    }
    for (const raw of open) {
      const told = () => raw.isClosed() || framesIn(raw.received()).some(({ type }) => type === FRAME.goAway);
      await waitFor("it is told that it broke the protocol", told);
      if (isClosed) raw.socket.destroy();
    }
    // A runtime opens some for itself when it is first used.
    await waitFor("their descriptors come back", () => descriptorsOf(port.pid) <= before + 4);
    for (const { socket } of open) socket.destroy();
  });

  it("that are silent are kept, whether they answer a PING or not", async () => {
    const session = openHttp2(port.url);
    let pings = 0;
    session.on("ping", () => {
      pings++;
    });
    const ask = async () => (await http2On(session, "/")).status;
    expect(await ask()).toBe(200);
    const mute = await rawConnect(port.url);
    mute.send(HELLO);
    await pause(12 * LOOK_MS);
    // One that is known to live is not asked again.
    expect(pings).toBeLessThan(3);
    expect(await ask()).toBe(200);
    mute.send(requestHeaders(1, { ":method": "GET" }, { endStream: true }));
    await waitFor("it is answered", () => framesIn(mute.received()).some(({ type }) => type === FRAME.headers));
    mute.socket.destroy();
    session.destroy();
  });
});
