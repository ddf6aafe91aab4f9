import type { Http2Session } from "node:http2";
import type { Socket } from "node:net";
import { clearInterval, setInterval } from "node:timers";
import { endConnection } from "./connections.ts";

/** How often sessions are checked, in milliseconds. */
const CHECK_MS = 10_000;

/**
 * After this many checks with an unsent PING a session is ended. A healthy one cannot send it while its client reads
 * nothing, which is allowed for as long: a minute, as for responses.
 */
const UNSENT_CHECKS = 6;

/** The size of a PING acknowledgement, in bytes (RFC 9113, 6.7). */
const PONG_BYTES = 17;

/** Deno itself closes the connection of a session that breaks the protocol. */
const RUNTIME_ENDS_BROKEN_SESSIONS = "Deno" in globalThis;

/**
 * Ends an HTTP/2 session that a protocol error has broken. After such an error Node 20 sends GOAWAY and stops reading, but
 * emits no event; the connection stays open even if the client closes it. A broken session accepts a PING but never sends
 * it, so a session that has received data and then fell silent gets a PING. A session that answers is left alone until
 * more data arrives. A session that sends the PING but gets no answer is left alone too.
 *
 * @param checkMs how often the session is checked, in milliseconds
 */
export function endWhenBroken(session: Http2Session, socket: Socket, checkMs = CHECK_MS): void {
  if (RUNTIME_ENDS_BROKEN_SESSIONS || session.destroyed) return;
  /** How many bytes had arrived at the last check. */
  let seenBytes = -1;
  /** How many bytes had arrived when the session last proved alive. Only later bytes can have broken it. */
  let knownAliveBytes = -1;
  /** How many bytes had arrived when the PING was sent; undefined while no PING is pending. */
  let pingedBytes: number | undefined;
  let isAnswered = false;
  let unsentChecks = 0;

  const check = () => {
    // A session that was destroyed need not have said so.
    if (session.destroyed) {
      clearInterval(timer);
      return;
    }
    const { bytesRead } = socket;
    if (pingedBytes === undefined) {
      if (bytesRead === seenBytes && bytesRead !== knownAliveBytes) ping(bytesRead);
      seenBytes = bytesRead;
    } else if (bytesRead === pingedBytes) {
      unsentChecks = (session.state.outboundQueueSize ?? 0) > 0 ? unsentChecks + 1 : 0;
      if (unsentChecks >= UNSENT_CHECKS) endConnection(session);
    } else {
      // Bytes that came with the acknowledgement, or instead of it, may have broken the session.
      if (isAnswered && bytesRead === pingedBytes + PONG_BYTES) knownAliveBytes = bytesRead;
      pingedBytes = undefined;
      seenBytes = bytesRead;
    }
  };
  const ping = (bytesRead: number) => {
    isAnswered = false;
    unsentChecks = 0;
    const isTaken = session.ping((error) => {
      isAnswered = error === null;
    });
    if (isTaken) pingedBytes = bytesRead;
  };
  const timer = setInterval(check, checkMs).unref();
  session.once("close", () => clearInterval(timer));
}
