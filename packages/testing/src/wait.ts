import { createSocket } from "node:dgram";
import { once } from "node:events";
import { type AddressInfo, createServer, type Server } from "node:net";

/**
 * Waits until a condition is true.
 *
 * @throws after two minutes (or `timeoutMs`), with the name of the condition
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
    if (performance.now() > deadline) throw new Error(`timeout of ${timeoutMs} ms: waited until ${what}`);
    await pause(20);
  }
}

/** Waits for a fixed time. Use it only if there is no condition to wait for. */
export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** Lets a server listen on a free port of 127.0.0.1. @returns the port */
export async function listen(server: Server): Promise<number> {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return (server.address() as AddressInfo).port;
}

/**
 * Finds a free port of 127.0.0.1 that no other test gets as long as this process runs. The port is below the range that
 * the system assigns to connections and listeners.
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
 * Reserves a port number for this process until it exits, by binding the UDP port of that number. The TCP server may
 * start later or restart.
 *
 * @returns false if it is already reserved
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
