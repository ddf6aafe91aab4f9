import { FRAME, frame } from "@user-group-service/testing/http2-frames";
import { type RawSocket, rawConnect } from "@user-group-service/testing/raw-socket";
import type { Runtime } from "@user-group-service/testing/runtime";
import { waitFor } from "@user-group-service/testing/wait";
import { afterEach, expect } from "vitest";
import { type OwnPortOptions, suitePort } from "./own-ports.ts";
import type { OwnPort } from "./start-port.ts";

export const MIB = 1024 * 1024;

const COLLECTIONS = 3;

/** What a port holds, in bytes, and what it did. */
export interface Memory {
  readonly rss: number;
  readonly heapUsed: number;
  readonly external: number;
  readonly served: number;
  readonly failures: number;
}

/** A port of its own, and connections to it. */
export interface WatchedPort {
  readonly port: OwnPort;
  /** The connections that `dial` made for this test. */
  readonly raws: RawSocket[];
  /** Makes a connection, which is closed after the test. Default: for HTTP/2, from 127.0.0.1. */
  dial(alpn?: "h2" | "http/1.1", localAddress?: string): Promise<RawSocket>;
  memory(): Promise<Memory>;
  /** What it holds once its garbage is collected. */
  heldBytes(): Promise<number>;
}

/** Starts a port for a suite. After each test it must be well. @param heapMib what its heap may grow to */
export function watchedPort(runtime: Runtime, options: OwnPortOptions, heapMib = 128): WatchedPort {
  const port = suitePort(runtime, options, heapMib);
  const raws: RawSocket[] = [];
  afterEach(async () => {
    for (const { socket } of raws.splice(0)) socket.destroy();
    expect(port.output()).not.toMatch(/uncaught|unhandled|warning|heap/i);
    expect(port.isRunning()).toBe(true);
    expect((await memory()).failures).toBe(0);
  });

  /** On a connection of its own, which is tried again where there is no room for one. */
  const memory = () =>
    waitFor("it tells what it holds", async () => {
      const raw = await rawConnect(port.url, "http/1.1");
      raw.send("GET /memory HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
      await waitFor("it is answered", () => raw.isClosed());
      const text = raw.received().toString();
      return text === "" ? undefined : (JSON.parse(text.slice(text.indexOf("\r\n\r\n"))) as Memory);
    });
  return {
    port,
    raws,
    dial: async (alpn, localAddress) => {
      const raw = await rawConnect(port.url, alpn, { localAddress });
      raws.push(raw);
      return raw;
    },
    memory,
    heldBytes: async () => {
      // What finalizers let go of is garbage as well, and what that held.
      for (let i = 1; i < COLLECTIONS; i++) await memory();
      const { heapUsed, external } = await memory();
      return heapUsed + external;
    },
  };
}

/** Has the port answer a PING, behind which everything sent before is read. */
export async function pinged(raw: RawSocket): Promise<void> {
  const pings = () => raw.frames().filter(({ type }) => type === FRAME.ping).length;
  const before = pings();
  raw.send(frame(FRAME.ping, 0, 0, Buffer.alloc(8)));
  await waitFor("the PING is answered", () => pings() > before);
}

/** The status of the answer on a stream, which HPACK has in its table or in the clear; undefined before it comes. */
export function statusOn(raw: RawSocket, stream: number): string | undefined {
  const headers = raw.frames().find((one) => one.type === FRAME.headers && one.stream === stream);
  if (!headers) return undefined;
  return headers.payload[0] === 0x88 ? "200" : /\d{3}/.exec(headers.payload.subarray(0, 6).toString("latin1"))?.[0];
}
