import type { Http2Session } from "node:http2";
import type { Socket } from "node:net";
import { clearTimeout, setTimeout } from "node:timers";
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
