import type { Http2Session } from "node:http2";
import type { Socket } from "node:net";
import { clearInterval, setInterval } from "node:timers";
import { endConnection } from "./connections.ts";

/** How often sessions are checked, in milliseconds. */
const CHECK_MS = 10_000;

/** After this many checks with an unsent PING a session is ended. */
const UNSENT_CHECKS = 2;

/** The size of a PING acknowledgement, in bytes (RFC 9113, 6.7). */
const PONG_BYTES = 17;

/** Deno itself closes the connection of a session that breaks the protocol. */
const RUNTIME_ENDS_BROKEN_SESSIONS = "Deno" in globalThis;

/** The state of a watched session. */
interface Watched {
  readonly session: Http2Session;
  readonly socket: Socket;
  /** How many bytes had arrived at the last check. */
  seenBytes: number;
  /** How many bytes had arrived when the session last proved alive. Only later bytes can have broken it. */
  knownAliveBytes: number;
  /** How many bytes had arrived when the PING was sent; undefined while no PING is pending. */
  pingedBytes: number | undefined;
  isAnswered: boolean;
  unsentChecks: number;
}

/**
 * Finds HTTP/2 sessions that a protocol error has broken, and ends them. After such an error Node 20 sends GOAWAY and
 * stops reading, but emits no event; the connection stays open even if the client closes it. A broken session accepts a
 * PING but never sends it, so every session that has received data and then fell silent gets a PING. A session that
 * answers is left alone until more data arrives. A session that sends the PING but gets no answer is left alone too.
 */
export class DeadSessions {
  readonly #watched = new Set<Watched>();
  readonly #checkMs: number;
  #timer: NodeJS.Timeout | undefined;

  constructor(checkMs = CHECK_MS) {
    this.#checkMs = checkMs;
  }

  /** Watches a session until it closes. */
  watch(session: Http2Session, socket: Socket): void {
    if (RUNTIME_ENDS_BROKEN_SESSIONS || session.destroyed) return;
    const watched: Watched = {
      session,
      socket,
      seenBytes: -1,
      knownAliveBytes: -1,
      pingedBytes: undefined,
      isAnswered: false,
      unsentChecks: 0,
    };
    this.#watched.add(watched);
    session.once("close", () => this.#watched.delete(watched));
    this.#timer ??= setInterval(() => this.#checkAll(), this.#checkMs).unref();
  }

  #checkAll(): void {
    for (const watched of this.#watched) check(watched);
    if (this.#watched.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }
}

function check(watched: Watched): void {
  const { session, pingedBytes } = watched;
  if (session.destroyed) return;
  const { bytesRead } = watched.socket;
  if (pingedBytes === undefined) {
    if (bytesRead === watched.seenBytes && bytesRead !== watched.knownAliveBytes) ping(watched, bytesRead);
    watched.seenBytes = bytesRead;
    return;
  }
  if (bytesRead === pingedBytes) {
    const isUnsent = (session.state.outboundQueueSize ?? 0) > 0 && !isBlocked(watched.socket);
    watched.unsentChecks = isUnsent ? watched.unsentChecks + 1 : 0;
    if (watched.unsentChecks >= UNSENT_CHECKS) endConnection(session);
    return;
  }
  // Bytes that came with the acknowledgement, or instead of it, may have broken the session.
  if (watched.isAnswered && bytesRead === pingedBytes + PONG_BYTES) watched.knownAliveBytes = bytesRead;
  watched.pingedBytes = undefined;
  watched.seenBytes = bytesRead;
}

/** What is left to write, in bytes. Private to node:net and node:tls; where it is missing, no peer counts as blocked. */
interface Handle {
  readonly writeQueueSize?: number;
  /** What a TLS handle writes to. */
  readonly _parent?: Handle;
}

/**
 * Whether the peer does not read. Then a healthy session cannot send its PING either, and other limits apply. What
 * counts is the TCP connection: TLS keeps what it could not write to a connection that was reset.
 */
function isBlocked({ _handle }: Socket & { readonly _handle?: Handle | null }): boolean {
  return ((_handle?._parent ?? _handle)?.writeQueueSize ?? 0) > 0;
}

function ping(watched: Watched, bytesRead: number): void {
  watched.isAnswered = false;
  watched.unsentChecks = 0;
  const isTaken = watched.session.ping((error) => {
    watched.isAnswered = error === null;
  });
  if (isTaken) watched.pingedBytes = bytesRead;
}
