import { once } from "node:events";
import { type IncomingMessage, request as requestHttp } from "node:http";
import { request as requestHttps } from "node:https";
import { EXIT, Failure, usageFailure } from "../failures.ts";
import type { Session } from "../session.ts";
import type { Shell } from "../shell.ts";

const EVERYWHERE = new Set(["0.0.0.0", "::"]);

/**
 * Requests a health endpoint of the service on this machine. Reads the settings of the service, such as its port, from
 * the environment variables. The health check of the container image runs this function through `ugs ping --local`.
 *
 * @returns the URL, and whether the response has the status 200
 * @throws Failure if the port is not valid, or if the service does not respond
 */
export async function checkLocally({ shell, settings }: Session, path: string) {
  const url = urlOf(shell.env);
  const { timeoutMs } = await settings.connectionTo(url);
  const signal = AbortSignal.any([shell.signal, AbortSignal.timeout(timeoutMs)]);
  const send = url.protocol === "http:" ? requestHttp : requestHttps;
  // The certificate is for the public name of the service, so Node cannot verify the certificate for this address. The
  // request needs no verification, because it contains no secret.
  const request = send(new URL(path, url), { rejectUnauthorized: false, signal, agent: false }).end();
  try {
    const [response] = (await once(request, "response")) as [IncomingMessage];
    response.resume();
    return { where: url.origin, isReady: response.statusCode === 200 };
  } catch (error) {
    const { code, message } = error as { code?: string; message: string };
    throw new Failure(`${url.origin} does not respond: ${code ?? message}`, {
      exitCode: EXIT.unavailable,
      hint:
        shell.env["TLS_CLIENT_CA_FILE"] && !shell.env["METRICS_PORT"]
          ? "the main port requires a client certificate: set METRICS_PORT, so that ugs calls the metrics port, which requires no certificate"
          : "see the log of the service; HOST, PORT, METRICS_PORT and TLS_CERT_FILE must be the values with which the service was started",
      cause: error,
    });
  }
}

function urlOf(env: Shell["env"]): URL {
  const { HOST, METRICS_PORT, TLS_CERT_FILE } = env;
  const port = METRICS_PORT || env["PORT"] || "8080";
  if (!/^[1-9]\d{0,4}$/.test(port) || Number(port) > 65_535)
    throw usageFailure(`${METRICS_PORT ? "METRICS_PORT" : "PORT"} must be a port number for --local`);
  const host = !HOST || EVERYWHERE.has(HOST) ? "127.0.0.1" : HOST;
  const isTls = !METRICS_PORT && TLS_CERT_FILE;
  return new URL(`${isTls ? "https" : "http"}://${host.includes(":") ? `[${host}]` : host}:${port}`);
}
