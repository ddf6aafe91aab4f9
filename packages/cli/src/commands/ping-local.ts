import { once } from "node:events";
import { type IncomingMessage, request as requestHttp } from "node:http";
import { request as requestHttps } from "node:https";
import { EXIT, Failure, usageFailure } from "../failures.ts";
import type { Session } from "../session.ts";
import type { Shell } from "../shell.ts";

/** The addresses that stand for every interface of the machine. */
const EVERYWHERE = new Set(["0.0.0.0", "::"]);

/**
 * Asks the service whose settings are in the environment, as the health check of its container does: on `METRICS_PORT`, and
 * on `PORT` without one.
 *
 * @param path of an endpoint for operators, such as `/readyz`
 * @returns where it was asked, and whether it says yes
 * @throws Failure when it cannot be asked
 */
export async function askLocally({ shell, settings }: Session, path: string): Promise<{ url: string; isSo: boolean }> {
  const url = urlOf(shell.env);
  const { timeoutMs } = await settings.connectionTo(url);
  const signal = AbortSignal.any([shell.signal, AbortSignal.timeout(timeoutMs)]);
  const asked = url.protocol === "http:" ? requestHttp : requestHttps;
  // Nothing secret is sent, and the certificate is for the name by which others call.
  const request = asked(new URL(path, url), { rejectUnauthorized: false, signal, agent: false }).end();
  try {
    const [response] = (await once(request, "response")) as [IncomingMessage];
    response.resume();
    return { url: url.origin, isSo: response.statusCode === 200 };
  } catch (error) {
    if (shell.signal.aborted) throw shell.signal.reason;
    const { code, message } = error as { code?: string; message: string };
    throw new Failure(`${url.origin} does not answer: ${code ?? message}`, {
      exitCode: EXIT.unavailable,
      hint: shell.env["TLS_CLIENT_CA_FILE"]
        ? "without METRICS_PORT the service answers none but clients with a certificate"
        : "its log says why; HOST, PORT, METRICS_PORT and TLS_CERT_FILE have to be those that it was started with",
      cause: error,
    });
  }
}

/** @throws Failure when the settings do not tell the port */
function urlOf(env: Shell["env"]): URL {
  const { HOST, METRICS_PORT, TLS_CERT_FILE } = env;
  const port = METRICS_PORT || env["PORT"] || "8080";
  if (!/^[1-9]\d{0,4}$/.test(port) || Number(port) > 65_535)
    throw usageFailure(`${METRICS_PORT ? "METRICS_PORT" : "PORT"} must be the number of a port to be asked by --local`);
  const host = !HOST || EVERYWHERE.has(HOST) ? "127.0.0.1" : HOST;
  const isTls = !METRICS_PORT && TLS_CERT_FILE;
  return new URL(`${isTls ? "https" : "http"}://${host.includes(":") ? `[${host}]` : host}:${port}`);
}
