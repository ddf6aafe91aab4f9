import { ConnectError, reasonOf } from "@user-group-service/client";

/**
 * Logs the error, and sends only the status and a short message to the page.
 *
 * @type {import("express").ErrorRequestHandler}
 */
export function failed(error, _req, res, _next) {
  // If Express cannot parse a request, Express sets `status`. Any other error can be temporary, so send 503.
  const status = error.status ?? 503;
  const reason = error instanceof ConnectError ? reasonOf(error) : undefined;
  console.error(status === 503 ? `${error.message}${reason ? ` (${reason})` : ""}` : error.message);
  res.status(status).json({ error: status === 503 ? "try again in a moment" : error.message });
}
