import { openWire, type Wire } from "@user-group-service/testing/attacks/wire";
import { FRAME, frame } from "@user-group-service/testing/http2-frames";
import type { Runtime } from "@user-group-service/testing/runtime";
import { waitFor } from "@user-group-service/testing/wait";
import { afterEach, expect } from "vitest";
import { type OwnPortOptions, suitePort } from "./own-ports.ts";
import type { OwnPort } from "./start-port.ts";

export const MIB = 1024 * 1024;

const COLLECTIONS = 3;

/** The memory use of a port in bytes, and the counters of the port. */
export interface Memory {
  readonly rss: number;
  readonly heapUsed: number;
  readonly external: number;
  readonly served: number;
  readonly failures: number;
}

export interface WatchedPort {
  readonly port: OwnPort;
  /** The connections that `dial` opened for the current test. */
  readonly raws: Wire[];
  /** Opens a connection that closes after the test. Default: HTTP/2, from 127.0.0.1. */
  dial(alpn?: "h2" | "http/1.1", localAddress?: string): Promise<Wire>;
  memory(): Promise<Memory>;
  /** Returns the memory use after a garbage collection. */
  heldBytes(): Promise<number>;
}

/** Starts a port for a suite. After each test, requires that the port still runs and has reported no error. */
export function watchedPort(runtime: Runtime, options: OwnPortOptions, heapMib = 128): WatchedPort {
  const port = suitePort(runtime, options, heapMib);
  const raws: Wire[] = [];
  afterEach(async () => {
    for (const { socket } of raws.splice(0)) socket.destroy();
    expect(port.output()).not.toMatch(/uncaught|unhandled|warning|heap/i);
    expect(port.isRunning()).toBe(true);
    expect((await memory()).failures).toBe(0);
  });

  /** Reads the memory use over a new connection. If the port accepts no more connections, tries again. */
  const memory = () =>
    waitFor("the port reports its memory use", async () => {
      const raw = await openWire(port.url, "http/1.1");
      raw.push("GET /memory HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
      await waitFor("the port answers", () => raw.isClosed);
      const text = raw.received().toString();
      return text === "" ? undefined : (JSON.parse(text.slice(text.indexOf("\r\n\r\n"))) as Memory);
    });
  return {
    port,
    raws,
    dial: async (alpn, localAddress) => {
      const raw = await openWire(port.url, alpn, { localAddress });
      raws.push(raw);
      return raw;
    },
    memory,
    heldBytes: async () => {
      // The finalizers of a garbage collection release objects that only the next garbage collection can free.
      for (let i = 1; i < COLLECTIONS; i++) await memory();
      const { heapUsed, external } = await memory();
      return heapUsed + external;
    },
  };
}

/**
 * Sends a PING and waits for the answer. When the answer arrives, the port has read all bytes that were sent before the
 * PING.
 */
export async function pinged(raw: Wire): Promise<void> {
  const pings = () => raw.frames().filter(({ type }) => type === FRAME.ping).length;
  const before = pings();
  raw.push(frame(FRAME.ping, 0, 0, Buffer.alloc(8)));
  await waitFor("the port answers the PING", () => pings() > before);
}

/**
 * Returns the status of the answer on a stream; undefined before the answer arrives. The status may be indexed or
 * literal in HPACK.
 */
export function statusOn(raw: Wire, stream: number): string | undefined {
  const headers = raw.frames().find((one) => one.type === FRAME.headers && one.stream === stream);
  if (!headers) return undefined;
  return headers.payload[0] === 0x88 ? "200" : /\d{3}/.exec(headers.payload.subarray(0, 6).toString("latin1"))?.[0];
}
