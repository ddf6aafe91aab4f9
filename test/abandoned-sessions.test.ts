import { connect } from "node:net";
import { describe, expect, it } from "vitest";
import { FLAG, FRAME, frame, HELLO, requestHeaders } from "./support/http2-frames.ts";
import { waitFor } from "./support/wait.ts";
import { watchedPort } from "./support/watched-port.ts";

const CONNECTIONS = 1500;
/** A session takes 5 KiB or more; this is for what the runtime keeps of connections for a while. */
const MAX_BYTES_EACH = 1024;

/** What a connection says before it is reset. */
const SAID: readonly (readonly [string, Buffer])[] = [
  ["its preface", HELLO],
  ["a request", Buffer.concat([HELLO, requestHeaders(1, { ":path": "/" })])],
  ["half a frame", Buffer.concat([HELLO, requestHeaders(1, { ":path": "/" }).subarray(0, 20)])],
  ["a request for what never answers", Buffer.concat([HELLO, requestHeaders(1, { ":path": "/stream" })])],
  [
    "half a body",
    Buffer.concat([HELLO, requestHeaders(1, { ":path": "/" }), frame(FRAME.data, 0, 1, Buffer.alloc(100))]),
  ],
  ["what is against the protocol", Buffer.concat([HELLO, frame(FRAME.data, FLAG.endStream, 2, Buffer.alloc(10))])],
];

describe.each(["node", "deno"] as const)("HTTP/2 connections that clients reset, on %s:", (runtime) => {
  const { port, heldBytes } = watchedPort(runtime, { deadSessionCheckMs: 200 });

  async function resetAfter(said: Buffer, count: number): Promise<void> {
    const { hostname: host, port: number } = new URL(port.url);
    for (let done = 0; done < count; done += 50) {
      await Promise.all(
        Array.from({ length: 50 }, async () => {
          const socket = connect({ host, port: Number(number) });
          socket.on("error", () => {});
          await new Promise((resolve) => socket.once("connect", resolve));
          await new Promise((resolve) => socket.write(said, resolve));
          await new Promise((resolve) => setImmediate(resolve));
          socket.resetAndDestroy();
        }),
      );
    }
  }

  it.sequential.each(SAID)("leave nothing behind after %s", async (_what, said) => {
    // The first ones fill caches.
    await resetAfter(said, 300);
    const before = await heldBytes();
    await resetAfter(said, CONNECTIONS);
    const left = await waitFor(
      "their memory comes back",
      async () => {
        const each = ((await heldBytes()) - before) / CONNECTIONS;
        return each < MAX_BYTES_EACH ? [each] : undefined;
      },
      20_000,
    );
    expect(left[0]).toBeLessThan(MAX_BYTES_EACH);
  });
});
