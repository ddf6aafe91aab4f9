import { createConnection, isIP } from "node:net";
import { connect as connectTls } from "node:tls";
import { StoreMisconfigured } from "./errors.ts";
import { type HostPort, nameOf, type RedisTarget } from "./url.ts";

const TIMEOUT_MS = 500;

/**
 * Checks whether the scheme of REDIS_URL requires TLS and the host does not use it, or the other way round. The error
 * of such a connection does not show this cause.
 *
 * @returns an error that contains the right scheme. Undefined if no host answers to the other scheme
 */
export async function wrongScheme({ tls, topology, hosts }: RedisTarget): Promise<StoreMisconfigured | undefined> {
  const answers = await Promise.all(hosts.map((host) => (tls ? answersPlainly(host) : answersOverTls(host))));
  const host = hosts[answers.indexOf(true)];
  if (!host) return undefined;
  const scheme = `redis${tls ? "" : "s"}${topology === "node" ? "" : `-${topology}`}://`;
  const what = tls ? "does not use TLS, but the scheme of REDIS_URL requires it" : "uses TLS";
  return new StoreMisconfigured(`${nameOf(host)} ${what}: begin REDIS_URL with ${scheme}`);
}

function answersOverTls(host: HostPort): Promise<boolean> {
  // Accept any certificate, because this connection sends no secret.
  const socket = connectTls({
    ...host,
    ...(isIP(host.host) ? {} : { servername: host.host }),
    rejectUnauthorized: false,
  });
  return settled(socket, (settle) => socket.once("secureConnect", () => settle(true)));
}

function answersPlainly(host: HostPort): Promise<boolean> {
  const socket = createConnection({ ...host });
  return settled(socket, (settle) => {
    socket.once("connect", () => socket.write("PING\r\n"));
    // An error is an answer as well. For example, Redis may require a password.
    socket.once("data", (data) => settle(/^[+-]/.test(data.toString("latin1"))));
  });
}

/** Waits for the answer of `begin`, and closes the connection. Returns false if the connection fails or is too slow. */
async function settled(
  socket: ReturnType<typeof createConnection>,
  begin: (settle: (answer: boolean) => void) => void,
): Promise<boolean> {
  try {
    return await new Promise<boolean>((resolve) => {
      socket.setTimeout(TIMEOUT_MS, () => resolve(false));
      socket.on("error", () => resolve(false)).once("close", () => resolve(false));
      begin(resolve);
    });
  } finally {
    socket.destroy();
  }
}
