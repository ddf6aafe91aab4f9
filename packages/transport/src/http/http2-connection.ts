import { performServerHandshake, type ServerHttp2Session } from "node:http2";
import type { Socket } from "node:net";
import { clearInterval, setInterval } from "node:timers";
import type { PausedConnection } from "../http-types.ts";
import { type Limits, MAX_HEADER_BYTES, MAX_HTTP2_STREAMS, SESSION_MEMORY_MB, UNANSWERED_CHECKS } from "../limits.ts";
import { replaceStreamMap } from "./node-stream-map.ts";
import { plainAddress } from "./server-request.ts";

const SESSION_OPTIONS = {
  settings: { maxConcurrentStreams: MAX_HTTP2_STREAMS, maxHeaderListSize: MAX_HEADER_BYTES },
  maxSettings: 16,
  maxSessionMemory: SESSION_MEMORY_MB,
  // By default, node:http2 ends a connection with all its calls after it has refused 100 streams of the connection.
  maxSessionRejectedStreams: 2 ** 31 - 1,
};

/** Only the handle can stop reading, because node:http2 bypasses the socket's stream. */
type StoppableSocket = Socket & { readonly _handle?: { readStop(): void; readStart(): void } | null };

/** An HTTP/2 connection: a session of node:http2 with its socket. */
export class Http2Connection implements PausedConnection {
  readonly session: ServerHttp2Session;
  readonly peerAddress: string;
  /**
   * The socket; undefined after it has closed. node:http2 exposes only a proxy object, which cannot destroy the socket.
   *
   * After the socket has closed, the session must not reference the socket, not even by a listener or a timer. If the
   * client has never acknowledged SETTINGS, Node keeps the session as long as the handle of the session exists. The
   * socket may reference this handle through the stack trace of the error that ended the session. If the session
   * referenced the socket, the references would form a cycle through native memory, which the garbage collector never
   * frees.
   */
  #socket: StoppableSocket | undefined;
  readonly #open: ReadonlySet<Http2Connection>;
  readonly #streams: { readonly size: number } | undefined;
  /** The caller whose waiting calls caused the last pause. */
  #caller: string | undefined;
  #isPaused = false;

  /**
   * @param open the open HTTP/2 connections of the port. The constructor adds this connection, and removes it when its
   * socket closes
   */
  constructor(socket: Socket, { deadSessionCheckMs }: Limits, open: Set<Http2Connection>) {
    // Sockets of an HTTP/1.1 server may be half-open. A half-open HTTP/2 session would stay open after its client has
    // closed the connection.
    socket.allowHalfOpen = false;
    // Deno creates a URL from the host that the client names in its TLS handshake (SNI), and throws if the URL is
    // invalid.
    if ("servername" in socket) socket.servername = false;
    this.session = performServerHandshake(socket, SESSION_OPTIONS);
    this.session.on("error", () => {});
    this.#streams = replaceStreamMap(this.session);
    this.peerAddress = plainAddress(socket.remoteAddress);
    this.#socket = socket;
    this.#open = open.add(this);
    socket.once("close", () => {
      open.delete(this);
      this.#socket = undefined;
    });
    this.#endWhenDead(deadSessionCheckMs);
  }

  /** Closes the connection immediately. node:http2 alone would wait until all pending data is written. */
  end(): void {
    this.session.destroy();
    this.#socket?.destroy();
  }

  get isClosed(): boolean {
    return this.#socket === undefined;
  }

  /** Whether a stream is open. */
  get isBusy(): boolean {
    return this.#streams !== undefined && this.#streams.size > 0;
  }

  /** Implements `RequestHead.pauseConnections`. */
  pause(caller: string, isFirst: boolean): PausedConnection[] {
    const others = isFirst ? [...this.#open].filter((other) => other.#caller === caller) : [];
    return [this, ...others].filter((connection) => connection.#pause(caller));
  }

  /**
   * Stops reading. Returns false if the connection is already paused or closed. The pause may end early: if the kernel
   * cannot take all bytes of a write immediately, node:http2 itself starts to read again.
   */
  #pause(caller: string): boolean {
    if (!this.#socket?._handle || this.#isPaused) return false;
    this.#caller = caller;
    this.#isPaused = true;
    this.#socket._handle.readStop();
    return true;
  }

  resume(): void {
    this.#isPaused = false;
    this.#socket?._handle?.readStart();
  }

  /** The number of bytes that the connection has written, and the number of bytes that the kernel has taken. */
  get bytes(): { readonly written: number; readonly taken: number } {
    const { bytesWritten: written = 0, writableLength = 0 } = this.#socket ?? {};
    return { written, taken: written - writableLength };
  }

  /**
   * Sends a PING if the session has sent no data since the last check. Ends the connection if the client does not
   * answer within `UNANSWERED_CHECKS` checks. Such a client is gone, does not read, or sends an endless header. HTTP/2
   * allows no other frame, such as the answer to a PING, before the end of a header. A PING also stays unanswered if
   * the session is broken. On Node 20, a protocol error or many stream resets in a short time break a session. A broken
   * session stops reading, emits no event, and stays open even if the client closes the connection.
   */
  #endWhenDead(checkMs: number): void {
    const { session } = this;
    /** The number of bytes that the kernel had taken at the last check. */
    let takenBefore = 0;
    /** The number of checks since the unanswered PING; undefined if no PING is unanswered. */
    let unanswered: number | undefined;
    // Use a timer instead of `session.setTimeout`, which would keep a destroyed session in memory until the end of the
    // timeout.
    const stop = () => clearInterval(timer);
    const timer = setInterval(() => {
      // node:http2 may destroy a session and emit no event, so check the socket.
      if (this.isClosed) return stop();
      const { taken } = this.bytes;
      const hasSent = taken !== takenBefore;
      takenBefore = taken;
      // A destroyed session cannot send a PING. Its client must close the connection within `UNANSWERED_CHECKS` checks.
      if (session.destroyed) unanswered ??= 0;
      // A paused session is not read, so the answer to a PING cannot arrive.
      else if (this.#isPaused) return;
      if (unanswered !== undefined) {
        if (++unanswered >= UNANSWERED_CHECKS) this.end();
      } else if (!hasSent) {
        unanswered = 0;
        session.ping((error) => {
          if (error === null) unanswered = undefined;
        });
      }
    }, checkMs).unref();
    session.once("close", stop);
  }
}

/** Whether an HTTP/2 stream may end before the kernel has taken the bytes of the stream, as on Deno. */
export const STREAMS_END_EARLY = "Deno" in globalThis;
