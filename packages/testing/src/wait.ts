import { createSocket } from "node:dgram";
import { once } from "node:events";
import { type AddressInfo, createServer, type Server } from "node:net";

/**
 * Waits until a condition returns a truthy value, and returns this value.
 *
 * @throws if the condition is still not met after `timeoutMs`, by default two minutes. The message contains `what`
 */
export async function waitFor<T>(
  what: string,
  condition: () => T | Promise<T>,
  timeoutMs = 120_000,
): Promise<NonNullable<T>> {
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    const value = await condition();
    if (value) return value;
    if (performance.now() > deadline) throw new Error(`timeout after ${timeoutMs} ms while waiting for: ${what}`);
    await pause(20);
  }
}

/** Waits for a fixed time. If the test can check a condition, use `waitFor` instead. */
export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** Lets a server listen on a free port of 127.0.0.1, and returns the port. */
export async function listen(server: Server): Promise<number> {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return (server.address() as AddressInfo).port;
}

/**
 * Returns a free port of 127.0.0.1. While this process runs, no other call of `freePort` returns the same port, even in
 * another process. The port is lower than the ephemeral ports, which the system assigns to connections and listeners.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = 11_000 + Math.floor(Math.random() * 21_000);
    if (!(await reserve(port))) continue;
    const server = createServer();
    const isFree = await new Promise<boolean>((resolve) => {
      server.once("error", () => resolve(false));
      server.listen(port, "127.0.0.1", () => server.close(() => resolve(true)));
    });
    if (isFree) return port;
  }
}

/**
 * Reserves a port number until this process exits, by binding the UDP port of that number. The TCP port of that number
 * stays free, so a TCP server can start and restart on it.
 *
 * @returns false if another process has reserved the port number
 */
function reserve(port: number): Promise<boolean> {
  const socket = createSocket("udp4").unref();
  return new Promise((resolve) => {
    socket.once("error", () => {
      socket.close();
      resolve(false);
    });
    socket.bind({ port, address: "127.0.0.1" }, () => resolve(true));
  });
}
