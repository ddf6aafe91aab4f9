import { ConnectError, reasonOf } from "@user-group-service/client";

/**
 * Tells the log why something failed, and the page only that it did.
 *
 * @type {import("express").ErrorRequestHandler}
 */
export function failed(error, _req, res, _next) {
  // Express says so of requests that it cannot read.
  const status = error.status ?? 503;
  const reason = error instanceof ConnectError ? reasonOf(error) : undefined;
  console.error(status === 503 ? `${error.message}${reason ? ` (${reason})` : ""}` : error.message);
  res.status(status).json({ error: status === 503 ? "try again in a moment" : error.message });
}
