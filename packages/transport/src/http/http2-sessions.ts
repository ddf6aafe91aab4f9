import type { Http2Session } from "node:http2";
import type { Socket } from "node:net";
import { clearInterval, setInterval } from "node:timers";
import type { PausedConnection } from "../http-types.ts";
import { type Limits, UNANSWERED_CHECKS } from "../limits.ts";
import { plainAddress } from "./server-request.ts";

interface Peer {
  readonly address: string;
  /**
   * The socket of an open session. Only the handle can stop reading, because node:http2 bypasses the socket's stream.
   */
  socket: (Socket & { readonly _handle?: { readStop(): void; readStart(): void } | null }) | undefined;
  caller: string | undefined;
  isPaused: boolean;
}

/**
 * The peers of sessions, with their sockets. node:http2 exposes only a proxy object of the socket, and this object
 * cannot destroy the socket.
 *
 * After the socket of a session has closed, the session must not reference the socket, not even by a listener or a
 * timer. If the client has never acknowledged SETTINGS, Node keeps the session as long as the handle of the session
 * exists. The socket may reference this handle, by the stack trace of the error that ended the session. If the session
 * referenced the socket, they would form a cycle through native memory, and the garbage collector would never free this
 * cycle.
 */
const peers = new WeakMap<Http2Session, Peer>();

export function superviseSession(
  session: Http2Session,
  socket: Socket,
  limits: Limits,
  sessions: Set<Http2Session>,
): void {
  const peer: Peer = { address: plainAddress(socket.remoteAddress), socket, caller: undefined, isPaused: false };
  peers.set(session, peer);
  sessions.add(session);
  socket.once("close", () => {
    sessions.delete(session);
    peer.socket = undefined;
  });
  endWhenDead(session, limits);
}

/** Returns the client address of a session; empty if the address is unknown. */
export function peerOfSession(session: Http2Session | undefined): string {
  return (session && peers.get(session)?.address) ?? "";
}

/** Closes an HTTP/2 connection immediately. node:http2 alone would wait until all pending data is written. */
export function endConnection(session: Http2Session): void {
  session.destroy();
  peers.get(session)?.socket?.destroy();
}

/**
 * Stops reading a session because a caller has many waiting calls. Returns undefined if the session is already paused
 * or closed. The pause may end early: if the kernel cannot take all bytes of a write immediately, node:http2 itself
 * starts to read again.
 */
export function pauseSession(session: Http2Session, caller: string): PausedConnection | undefined {
  const peer = peers.get(session);
  if (!peer?.socket?._handle || peer.isPaused) return undefined;
  peer.caller = caller;
  peer.isPaused = true;
  peer.socket._handle.readStop();
  return {
    get isClosed() {
      return peer.socket === undefined;
    },
    resume() {
      peer.isPaused = false;
      peer.socket?._handle?.readStart();
    },
  };
}

/** Returns whether the calls of a caller caused the last pause of a session. */
export function wasPausedFor(session: Http2Session, caller: string): boolean {
  return peers.get(session)?.caller === caller;
}

/**
 * Whether an HTTP/2 stream may end before the kernel has taken the bytes of the stream. This is the case on Deno. On
 * Node, a stream ends after the kernel has taken its bytes.
 */
export const STREAMS_END_EARLY = "Deno" in globalThis;

/** Returns the number of bytes that a connection has written, and the number of bytes that the kernel has taken. */
export function bytesOf(session: Http2Session): { readonly written: number; readonly taken: number } {
  const { bytesWritten: written = 0, writableLength = 0 } = peers.get(session)?.socket ?? {};
  return { written, taken: written - writableLength };
}

/**
 * Ends an HTTP/2 session whose client does not answer a PING within `UNANSWERED_CHECKS` checks. Such a client is gone,
 * does not read, or sends an endless header, which an answer cannot interrupt. A PING also stays unanswered if the
 * session is broken. On Node 20, a protocol error or many fast resets break a session. A broken session stops reading,
 * emits no event, and stays open even if the client closes the connection.
 *
 * Sends a PING if the session has sent no data since the last check.
 */
function endWhenDead(session: Http2Session, { deadSessionCheckMs }: Limits): void {
  /** The bytes that the kernel had taken at the last check. On Deno, this number may be less than the written bytes. */
  let takenBefore = 0;
  /** The number of checks since the unanswered PING; undefined if no PING is unanswered. */
  let unanswered: number | undefined;
  // Use a timer. The timeout of a node:http2 session would keep a destroyed session in memory until the timeout ends.
  const stop = () => clearInterval(timer);
  const timer = setInterval(() => {
    // node:http2 may destroy a session and emit no event, so check the socket.
    const peer = peers.get(session);
    if (!peer?.socket) return stop();
    const { taken } = bytesOf(session);
    const hasSent = taken !== takenBefore;
    takenBefore = taken;
    // A destroyed session cannot send a PING. Its client has as much time to close the connection as to answer a PING.
    if (session.destroyed) unanswered ??= 0;
    // A paused session is not read, so the answer to a PING cannot arrive.
    else if (peer.isPaused) return;
    if (unanswered !== undefined) {
      if (++unanswered >= UNANSWERED_CHECKS) endConnection(session);
    } else if (!hasSent) {
      unanswered = 0;
      session.ping((error) => {
        if (error === null) unanswered = undefined;
      });
    }
  }, deadSessionCheckMs).unref();
  session.once("close", stop);
}
