import { createSocket } from "node:dgram";
import { once } from "node:events";
import { type AddressInfo, createServer, type Server } from "node:net";

/**
 * Waits until a condition holds.
 *
 * @throws when it does not within two minutes (or `timeoutMs`), naming what was waited for
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
    if (performance.now() > deadline) throw new Error(`waited ${timeoutMs} ms in vain until ${what}`);
    await pause(20);
  }
}

/** Waits so long, for what nothing tells of. */
export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** Has a server listen on a free port of 127.0.0.1; gives the port. */
export async function listen(server: Server): Promise<number> {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return (server.address() as AddressInfo).port;
}

/**
 * A port of 127.0.0.1 that is free, and that no test is given again, nor any of the processes that run beside this one, as
 * long as it runs. It is below those that the system gives to connections and listeners by itself, which might take it
 * before whoever asked for it does.
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
 * Reserves the number of a port for this process until it ends, by its UDP port, which nothing here uses: what is to
 * listen at the port has yet to start, or is down for a while.
 *
 * @returns false when it is reserved already
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
