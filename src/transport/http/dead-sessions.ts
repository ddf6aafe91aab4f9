import type { Http2Session } from "node:http2";
import type { Socket } from "node:net";
import { clearInterval, setInterval } from "node:timers";
import { endConnection } from "./connections.ts";

/** How often sessions are looked at, in milliseconds. */
const LOOK_MS = 10_000;

/** How many looks a PING may be unsent before its session is ended. */
const UNSENT_LOOKS = 2;

/** How many bytes the answer to a PING has (RFC 9113, 6.7). */
const PONG_BYTES = 17;

/** Deno ends a session that breaks the protocol, with its connection. */
const RUNTIME_ENDS_THEM = "Deno" in globalThis;

/** A session, and what was seen of it. */
interface Watched {
  readonly session: Http2Session;
  readonly socket: Socket;
  /** What had come at the last look, in bytes. */
  seenBytes: number;
  /** What had come when it was known to live, in bytes: only what comes later can break it. */
  aliveBytes: number;
  /** What had come when it was sent a PING, in bytes; undefined when it was not. */
  pingedBytes: number | undefined;
  isAnswered: boolean;
  unsentLooks: number;
}

/**
 * Finds the HTTP/2 sessions that broke the protocol, and ends them. Node 20
 * says GOAWAY and then reads no more: nobody hears of it, the client may keep
 * the connection, and even one that the client closes stays open. Such a
 * session takes a PING and never sends it. So one that has been silent since
 * something came is sent a PING; one that answers it is left in peace until
 * more comes, and so is one that only does not answer.
 */
export class DeadSessions {
  readonly #watched = new Set<Watched>();
  readonly #lookMs: number;
  #timer: NodeJS.Timeout | undefined;

  constructor(lookMs = LOOK_MS) {
    this.#lookMs = lookMs;
  }

  /** Looks after a session until it is closed. */
  watch(session: Http2Session, socket: Socket): void {
    if (RUNTIME_ENDS_THEM || session.destroyed) return;
    const watched: Watched = {
      session,
      socket,
      seenBytes: -1,
      aliveBytes: -1,
      pingedBytes: undefined,
      isAnswered: false,
      unsentLooks: 0,
    };
    this.#watched.add(watched);
    session.once("close", () => this.#watched.delete(watched));
    this.#timer ??= setInterval(() => this.#look(), this.#lookMs).unref();
  }

  #look(): void {
    for (const watched of this.#watched) look(watched);
    if (this.#watched.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }
}

function look(watched: Watched): void {
  const { session, pingedBytes } = watched;
  if (session.destroyed) return;
  const { bytesRead } = watched.socket;
  if (pingedBytes === undefined) {
    if (bytesRead === watched.seenBytes && bytesRead !== watched.aliveBytes) ping(watched, bytesRead);
    watched.seenBytes = bytesRead;
    return;
  }
  if (bytesRead === pingedBytes) {
    const isUnsent = (session.state.outboundQueueSize ?? 0) > 0 && !isBlocked(watched.socket);
    watched.unsentLooks = isUnsent ? watched.unsentLooks + 1 : 0;
    if (watched.unsentLooks >= UNSENT_LOOKS) endConnection(session);
    return;
  }
  // What came with the answer, or in its place, may have broken the session.
  if (watched.isAnswered && bytesRead === pingedBytes + PONG_BYTES) watched.aliveBytes = bytesRead;
  watched.pingedBytes = undefined;
  watched.seenBytes = bytesRead;
}

/** Whether the other end takes no bytes: a session that lives sends none either then, and has limits of its own. */
function isBlocked({ _handle }: Socket & { readonly _handle?: { readonly writeQueueSize?: number } | null }): boolean {
  return (_handle?.writeQueueSize ?? 0) > 0;
}

function ping(watched: Watched, bytesRead: number): void {
  watched.isAnswered = false;
  watched.unsentLooks = 0;
  const isTaken = watched.session.ping((error) => {
    watched.isAnswered = error === null;
  });
  if (isTaken) watched.pingedBytes = bytesRead;
}
