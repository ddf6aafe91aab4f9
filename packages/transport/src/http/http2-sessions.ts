import type { Http2Session } from "node:http2";
import type { Socket } from "node:net";
import { clearInterval, setInterval } from "node:timers";
import { type Limits, UNANSWERED_LOOKS } from "../limits.ts";
import { plainAddress } from "./server-request.ts";

/** The address of a session's client, and the session's socket while that is open. */
interface Peer {
  readonly address: string;
  socket: Socket | undefined;
}

/**
 * node:http2 exposes only a proxy of the socket, which cannot be destroyed, and that only until the session has ended.
 *
 * Nothing may lead from a session to a closed socket, no listener or timer either. Node keeps a session whose SETTINGS were
 * never acknowledged for as long as its handle, and the socket may hold that handle: by the error that ended the session,
 * whose unread stack trace lists it. That would be a cycle through native memory, which is never collected.
 */
const peers = new WeakMap<Http2Session, Peer>();

/** Records the socket of a new session, and ends the session when it is idle, dead, or has no request. */
export function superviseSession(session: Http2Session, socket: Socket, limits: Limits): void {
  const peer: Peer = { address: plainAddress(socket.remoteAddress), socket };
  peers.set(session, peer);
  socket.once("close", () => {
    peer.socket = undefined;
  });
  closeWhenIdle(session, limits);
  endWithoutRequest(session, limits);
  endWhenDead(session, limits);
}

/** The address of the client of a session; empty when it is not known. */
export function peerOfSession(session: Http2Session | undefined): string {
  return (session && peers.get(session)?.address) ?? "";
}

/**
 * Closes an HTTP/2 connection whose peer does not read. Otherwise node:http2 would wait until all pending data is
 * written.
 */
export function endConnection(session: Http2Session): void {
  session.destroy();
  peers.get(session)?.socket?.destroy();
}

/** Whether HTTP/2 streams end before the kernel has taken their bytes. Node's wait for it. */
export const STREAMS_END_EARLY = "Deno" in globalThis;

/** How many bytes an HTTP/2 connection has received and written, and how many of these the kernel has taken. */
export function bytesOf(session: Http2Session): {
  readonly read: number;
  readonly written: number;
  readonly taken: number;
} {
  const { bytesRead: read = 0, bytesWritten: written = 0, writableLength = 0 } = peers.get(session)?.socket ?? {};
  return { read, written, taken: written - writableLength };
}

/**
 * Looks at a session at intervals until it ends. The timeout of node:http2 itself is not cleared when a session is
 * destroyed, and so keeps the memory of each connection until it fires.
 *
 * @returns what stops it
 */
function watch(session: Http2Session, intervalMs: number, look: () => void): () => void {
  const stop = () => clearInterval(timer);
  // A session that was destroyed need not have said so.
  const timer = setInterval(() => (session.destroyed ? stop() : look()), intervalMs).unref();
  session.once("close", stop);
  return stop;
}

/**
 * Closes an HTTP/2 connection on which nothing is sent or received, not even a PING, for `idleTimeoutMs`; it may take up
 * to twice as long. Its streams may end, but if they stall for another `stallTimeoutMs`, the connection is ended: they
 * would keep it, and the memory they hold, for as long as the client likes.
 */
function closeWhenIdle(session: Http2Session, { idleTimeoutMs, stallTimeoutMs }: Limits): void {
  let seen = bytesOf(session);
  /** Whether nothing was sent or received since the last look. */
  const isSilent = () => {
    const { read, written } = seen;
    seen = bytesOf(session);
    return seen.read === read && seen.written === written;
  };
  const stop = watch(session, idleTimeoutMs, () => {
    if (!isSilent()) return;
    stop();
    session.close();
    watch(session, stallTimeoutMs, () => {
      if (isSilent()) endConnection(session);
    });
  });
}

/** How many looks in a row have to find parts of a request. */
const PARTIAL_LOOKS = 2;

/**
 * Ends an HTTP/2 connection that sends the bytes of its first request so slowly that it does not arrive in time: they could
 * come one by one, without end. A client that has only connected early is left alone: it sends nothing, or PINGs, which
 * cannot stand within the headers of a request, or one acknowledgement of our PING, which is seen by one look alone.
 */
function endWithoutRequest(session: Http2Session, { headerTimeoutMs }: Limits): void {
  // The bytes that a client sends as it connects do not count: the first look only notes how many they were.
  let seenBytes = Number.POSITIVE_INFINITY;
  let isPinged = false;
  let partialLooks = 0;
  const stop = watch(session, headerTimeoutMs / (PARTIAL_LOOKS + 1), () => {
    const { read } = bytesOf(session);
    partialLooks = read > seenBytes && !isPinged ? partialLooks + 1 : 0;
    if (partialLooks >= PARTIAL_LOOKS) endConnection(session);
    seenBytes = read;
    isPinged = false;
  });
  session.on("ping", () => {
    isPinged = true;
  });
  session.once("stream", stop);
}

/** The size of a PING acknowledgement, in bytes (RFC 9113, 6.7). */
const PONG_BYTES = 17;

/**
 * Ends an HTTP/2 session that does not answer a PING within a minute. Then its client is gone, or does not read, whatever it
 * sends to look alive; or the session is broken. Node 20 breaks it at a protocol error, and when streams are reset too fast:
 * it stops reading and emits no event, and the connection stays open even if the client closes it.
 *
 * A session gets a PING when it has received data and sent nothing since the last look. One that has answered is left alone
 * until more data arrives.
 */
function endWhenDead(session: Http2Session, { deadSessionCheckMs }: Limits): void {
  /** How many bytes the kernel had taken at the last look. On Deno, those that count as written may still wait for it. */
  let takenBefore = 0;
  /** How many bytes had arrived when the session last proved alive. Only later bytes can have broken it. */
  let aliveBytes = -1;
  /** For how many looks a PING has been unanswered; undefined when there is none. */
  let unanswered: number | undefined;
  watch(session, deadSessionCheckMs, () => {
    const { read, taken } = bytesOf(session);
    const hasSent = taken !== takenBefore;
    takenBefore = taken;
    if (unanswered !== undefined) {
      if (++unanswered >= UNANSWERED_LOOKS) endConnection(session);
    } else if (!hasSent && read !== aliveBytes) {
      unanswered = 0;
      session.ping((error) => {
        if (error !== null) return;
        unanswered = undefined;
        // Bytes that came with the acknowledgement may have broken the session.
        if (bytesOf(session).read === read + PONG_BYTES) aliveBytes = read + PONG_BYTES;
      });
    }
  });
}
