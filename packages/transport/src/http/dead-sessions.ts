import type { Http2Session } from "node:http2";
import type { Socket } from "node:net";
import { clearInterval, setInterval } from "node:timers";
import { endConnection } from "./connections.ts";

/** How often sessions are checked, in milliseconds. */
const CHECK_MS = 10_000;

/** How many checks a PING may stay unanswered. A client may take a minute to read a response. */
const UNANSWERED_CHECKS = 6;

/** The size of a PING acknowledgement, in bytes (RFC 9113, 6.7). */
const PONG_BYTES = 17;

/**
 * Ends an HTTP/2 session that does not answer a PING within a minute: its client does not read, whatever it sends to look
 * alive, or is gone, or the session is broken. A protocol error breaks it: Node 20 then sends GOAWAY and stops reading, but
 * emits no event, and the connection stays open even if the client closes it. Streams that are reset too fast make it stop
 * reading, too. A session that has received data and sent nothing since gets a PING. One that has answered is left alone
 * until more data arrives.
 *
 * @param checkMs how often the session is checked, in milliseconds
 */
export function endWhenDead(session: Http2Session, socket: Socket, checkMs = CHECK_MS): void {
  if (session.destroyed) return;
  /** How many bytes the system had taken at the last check. */
  let sent = 0;
  /** How many bytes had arrived when the session last proved alive. Only later bytes can have broken it. */
  let aliveBytes = -1;
  /** For how many checks a PING has been unanswered; undefined when there is none. */
  let unanswered: number | undefined;

  const check = () => {
    // A session that was destroyed need not have said so.
    if (session.destroyed) return clearInterval(timer);
    // Deno hands all that a session writes to the socket, and counts it as written.
    const nowSent = socket.bytesWritten - socket.writableLength;
    const hasSent = nowSent !== sent;
    sent = nowSent;
    if (unanswered !== undefined) {
      if (++unanswered >= UNANSWERED_CHECKS) endConnection(session);
    } else if (!hasSent && socket.bytesRead !== aliveBytes) ping();
  };
  const ping = () => {
    const { bytesRead } = socket;
    unanswered = 0;
    session.ping((error) => {
      if (error !== null) return;
      unanswered = undefined;
      // Bytes that came with the acknowledgement may have broken the session.
      if (socket.bytesRead === bytesRead + PONG_BYTES) aliveBytes = socket.bytesRead;
    });
  };
  const timer = setInterval(check, checkMs).unref();
  session.once("close", () => clearInterval(timer));
}
