import type { Http2Session } from "node:http2";
import type { Socket } from "node:net";
import { clearInterval, clearTimeout, setInterval, setTimeout } from "node:timers";
import { HEADER_TIMEOUT_MS } from "../limits.ts";
import { endConnection } from "./connections.ts";

/** How long nothing may be sent or received on an HTTP/2 connection, in milliseconds. */
const IDLE_TIMEOUT_MS = 600_000;

/** How long its streams may stall after that, in milliseconds. */
const STALL_TIMEOUT_MS = 30_000;

/**
 * Closes an HTTP/2 connection on which nothing is sent or received, not even a PING, for `idleTimeoutMs`; it may take up
 * to twice as long. Its streams may end, but if they stall for another `stallTimeoutMs`, the connection is ended: they
 * would keep it, and the memory they hold, for as long as the client likes.
 *
 * The timeout of node:http2 itself is not cleared when a session is destroyed, and so keeps the memory of each
 * connection until it fires.
 */
export function closeWhenIdle(
  session: Http2Session,
  socket: Socket,
  {
    idleTimeoutMs = IDLE_TIMEOUT_MS,
    stallTimeoutMs = STALL_TIMEOUT_MS,
  }: { readonly idleTimeoutMs?: number; readonly stallTimeoutMs?: number },
): void {
  let seenBytes = socket.bytesRead + socket.bytesWritten;
  let isClosing = false;
  const check = () => {
    const bytes = socket.bytesRead + socket.bytesWritten;
    if (bytes === seenBytes) {
      if (isClosing) return endConnection(session);
      isClosing = true;
      session.close();
    }
    seenBytes = bytes;
    timer = setTimeout(check, isClosing ? stallTimeoutMs : idleTimeoutMs).unref();
  };
  let timer = setTimeout(check, idleTimeoutMs).unref();
  session.once("close", () => clearTimeout(timer));
}

/** How many checks in a row have to find parts of a request. */
const PARTIAL_CHECKS = 2;

/**
 * Ends an HTTP/2 connection whose first request does not arrive in time, though its bytes do: they would come one by one,
 * without end. A client may connect before it has anything to ask; then it sends nothing for a while, or PINGs, which
 * cannot come within a request's headers. It may acknowledge a PING of ours, too, but not at each check.
 */
export function endWithoutRequest(session: Http2Session, socket: Socket, timeoutMs = HEADER_TIMEOUT_MS): void {
  let seenBytes = Number.POSITIVE_INFINITY;
  let isPinged = false;
  let partialChecks = 0;
  const onPing = () => {
    isPinged = true;
  };
  const stop = () => {
    clearInterval(timer);
    // They lead from the session to the socket: see `sockets` in connections.ts.
    session.off("ping", onPing).off("stream", stop).off("close", stop);
  };
  const check = () => {
    // A session that was destroyed need not have said so.
    if (session.destroyed) return stop();
    partialChecks = socket.bytesRead > seenBytes && !isPinged ? partialChecks + 1 : 0;
    if (partialChecks >= PARTIAL_CHECKS) endConnection(session);
    seenBytes = socket.bytesRead;
    isPinged = false;
  };
  // The first check comes after what a client sends as it connects.
  const timer = setInterval(check, timeoutMs / (PARTIAL_CHECKS + 1)).unref();
  session.on("ping", onPing).on("stream", stop).on("close", stop);
}
