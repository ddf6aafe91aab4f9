import { once } from "node:events";
import { createConnection, isIP, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import { StoreMisconfigured } from "./errors.ts";
import { type HostPort, nameOf, type RedisTarget } from "./url.ts";

const TIMEOUT_MS = 500;

/**
 * Checks whether REDIS_URL has the wrong scheme. The scheme is wrong if it requires TLS but the host does not use TLS,
 * or if the host uses TLS but the scheme does not. The error of the connection does not contain this cause.
 *
 * @returns an error that contains the right scheme. Undefined if no host answers a connection with the other scheme
 */
export async function wrongScheme({ tls, topology, hosts }: RedisTarget): Promise<StoreMisconfigured | undefined> {
  const answers = await Promise.all(hosts.map((host) => (tls ? answersPlainly(host) : answersOverTls(host))));
  const host = hosts[answers.indexOf(true)];
  if (!host) return undefined;
  const scheme = `redis${tls ? "" : "s"}${topology === "node" ? "" : `-${topology}`}://`;
  const what = tls ? "does not use TLS, but the scheme of REDIS_URL requires it" : "uses TLS";
  return new StoreMisconfigured(`${nameOf(host)} ${what}: begin REDIS_URL with ${scheme}`);
}

async function answersOverTls(host: HostPort): Promise<boolean> {
  // Accept any certificate, because this connection sends no secret.
  const servername = isIP(host.host) ? {} : { servername: host.host };
  const socket = connectTls({ ...host, ...servername, rejectUnauthorized: false });
  return (await firstOf(socket, "secureConnect")) !== undefined;
}

async function answersPlainly(host: HostPort): Promise<boolean> {
  const socket = createConnection({ ...host });
  socket.write("PING\r\n");
  const [data] = (await firstOf(socket, "data")) ?? [];
  // An error is an answer as well. For example, Redis may require a password.
  return /^[+-]/.test(String(data));
}

/** Waits for an event, and closes the connection. Returns undefined if the connection fails or is too slow. */
async function firstOf(socket: Socket, event: string): Promise<readonly unknown[] | undefined> {
  socket.on("error", () => {});
  try {
    return await once(socket, event, { signal: AbortSignal.timeout(TIMEOUT_MS) });
  } catch {
    return undefined;
  } finally {
    socket.destroy();
  }
}
