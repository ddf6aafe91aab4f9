import { connect, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import {
  FLAG,
  FRAME,
  frame,
  HELLO,
  numberFrame,
  PREFACE,
  requestHeaders,
} from "@user-group-service/testing/http2-frames";
import { descriptorsOf } from "@user-group-service/testing/process-usage";
import { VARIANTS } from "@user-group-service/testing/variants";
import { pause, waitFor } from "@user-group-service/testing/wait";
import { describe, it } from "vitest";
import { watchedPort } from "./support/watched-port.ts";

const CONNECTIONS = 800;
/** A session takes 5 KiB or more; this is for what the runtime keeps of connections for a while. */
const MAX_BYTES_EACH = 1024;
/** What connections are given to end. The port looks for their sessions every 200 ms; what it ends is collected then. */
const PAUSE_MS = 500;

/**
 * Makes connections again and again until as many leave nothing behind: what leaks is left by all of them, what fills
 * caches by the first ones alone, on Deno sometimes by the first 1,600.
 *
 * @param connect makes `count` connections, and leaves them
 */
async function leavesNothing(heldBytes: () => Promise<number>, count: number, connect: () => Promise<void>) {
  const heldAfter = async () => {
    await connect();
    await pause(PAUSE_MS);
    return heldBytes();
  };
  let held = await heldAfter();
  await waitFor("connections leave nothing", async () => {
    const before = held;
    held = await heldAfter();
    return (held - before) / count < MAX_BYTES_EACH;
  });
}

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
    await leavesNothing(heldBytes, CONNECTIONS, () => resetAfter(said, CONNECTIONS));
  });
});

const GARBAGE = Buffer.alloc(50, 0x89);
const WAITING = requestHeaders(1, { ":path": "/stream" });

/** What is against the protocol. */
const BROKEN: readonly (readonly [string, readonly Uint8Array[]])[] = [
  ["garbage instead of SETTINGS", [PREFACE, GARBAGE]],
  ["garbage while a request waits", [HELLO, WAITING, GARBAGE]],
  ["an answer to a PING that was never sent", [HELLO, frame(FRAME.ping, FLAG.ack, 0, Buffer.alloc(8))]],
  ["SETTINGS of a wrong length", [PREFACE, frame(FRAME.settings, 0, 0, Buffer.alloc(5))]],
  ["a WINDOW_UPDATE of 0", [HELLO, numberFrame(FRAME.windowUpdate, 0, 0)]],
];

/** How a client leaves its connection. */
const ENDINGS: readonly (readonly [string, (tcp: Socket, socket: Socket) => void])[] = [
  ["reset", (tcp) => void tcp.resetAndDestroy()],
  ["ended", (_tcp, socket) => void socket.resume().end()],
];

// Deno 2.9.3 keeps some KiB of each connection that a client ends, broken or not.
const ON_NODE = VARIANTS.filter(({ runtime }) => runtime === "node");

describe.each(ON_NODE)("HTTP/2 connections that break the protocol on Node, TLS $secure:", ({ secure, tls }) => {
  const { port, heldBytes } = watchedPort("node", { deadSessionCheckMs: 100, tls: tls?.server });
  // Handshakes take long. Over TLS a few ways to break it must do.
  const [connections, broken] = secure ? [300, BROKEN.slice(0, 2)] : [400, BROKEN];
  const cases = broken.flatMap(([what, said]) => ENDINGS.map(([how, end]) => ({ what, how, said, end })));

  async function connectOnce({ said, end }: (typeof cases)[number]): Promise<Socket> {
    const tcp = connect({ host: "127.0.0.1", port: Number(new URL(port.url).port) });
    const socket = secure ? connectTls({ socket: tcp, rejectUnauthorized: false, ALPNProtocols: ["h2"] }) : tcp;
    for (const one of [tcp, socket]) one.on("error", () => {});
    await new Promise((resolve) => socket.once(secure ? "secureConnect" : "connect", resolve));
    await new Promise((resolve) => socket.write(Buffer.concat(said), resolve));
    // For most of it to be read first.
    await pause(5);
    end(tcp, socket);
    return socket;
  }

  /** Makes connections, and waits until the server has closed them. */
  async function leave(how: (typeof cases)[number], count: number): Promise<void> {
    const open = descriptorsOf(port.pid);
    const left: Socket[] = [];
    for (let done = 0; done < count; done += 50) {
      left.push(...(await Promise.all(Array.from({ length: 50 }, () => connectOnce(how)))));
    }
    // A runtime opens some for itself when it is first used.
    await waitFor("the connections are closed", () => descriptorsOf(port.pid) <= open + 4);
    for (const socket of left) socket.destroy();
  }

  it.sequential.each(cases)("leave nothing behind after $what, when they are $how", async (how) => {
    await leavesNothing(heldBytes, connections, () => leave(how, connections));
  });
});
