import { createConnection, isIP } from "node:net";
import { connect as connectTls } from "node:tls";
import { StoreMisconfigured } from "./errors.ts";
import { type HostPort, nameOf, type RedisTarget } from "./url.ts";

/** How long a host may take to answer, in milliseconds. */
const ANSWER_MS = 500;

/**
 * Finds out whether a host of REDIS_URL uses TLS though its scheme says that it does not, or the other way round. To be
 * asked when it cannot be connected to: the errors of such a connection, a reset or a timeout, do not say so.
 *
 * @returns what to write instead; undefined when no host answers that way
 */
export async function wrongScheme({ tls, shape, hosts }: RedisTarget): Promise<StoreMisconfigured | undefined> {
  const answers = await Promise.all(hosts.map((host) => (tls ? answersPlainly(host) : answersOverTls(host))));
  const host = hosts[answers.indexOf(true)];
  if (!host) return undefined;
  const scheme = `redis${tls ? "" : "s"}${shape === "node" ? "" : `-${shape}`}://`;
  const what = tls ? "does not use TLS, which the scheme of REDIS_URL wants" : "uses TLS";
  return new StoreMisconfigured(`${nameOf(host)} ${what}: begin REDIS_URL with ${scheme}`);
}

function answersOverTls(host: HostPort): Promise<boolean> {
  // Nothing is sent that the host would have to be trusted for.
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
    // An error, such as that of a missing password, is an answer as well.
    socket.once("data", (data) => settle(/^[+-]/.test(data.toString("latin1"))));
  });
}

/** Ends a connection once it is settled what it was opened for; false when it breaks before, or takes too long. */
async function settled(
  socket: ReturnType<typeof createConnection>,
  begin: (settle: (answer: boolean) => void) => void,
): Promise<boolean> {
  try {
    return await new Promise<boolean>((resolve) => {
      socket.setTimeout(ANSWER_MS, () => resolve(false));
      socket.on("error", () => resolve(false)).once("close", () => resolve(false));
      begin(resolve);
    });
  } finally {
    socket.destroy();
  }
}
