import type { Http2Session } from "node:http2";
import { clearTimeout, setTimeout } from "node:timers";

/** How many streams a client may have open on one HTTP/2 connection. */
export const MAX_STREAMS = 250;

/** With fewer, a distant client could not use what an overloaded server has left for it. */
const MIN_STREAMS = 8;

/** How often the lag of the event loop is measured, in milliseconds. */
const CHECK_MS = 100;

/** The lag from which clients may have fewer streams, in milliseconds. Some hundreds of calls are answered in it. */
const MAX_LAG_MS = 100;

/** How many measurements in a row must exceed it. A single one may be a pause of the whole machine. */
const LATE_CHECKS = 2;

/** How long the loop must not lag before clients may have more streams again, in milliseconds. */
const CALM_MS = 1000;

/** How many times more they may have then. */
const GROWTH = 2;

/** How many of the streams that they may have are left to clients at each measurement, at least. */
const MIN_SHARE = 0.5;

/** What the quota applies to. */
export interface QuotaSessions {
  /** The open sessions. */
  readonly sessions: () => Iterable<Http2Session>;
  /** How many streams of a session are streaming calls, which may stay open for long. Default: 0. */
  readonly streamingCalls?: ((session: Http2Session) => number) | undefined;
}

/**
 * Allows HTTP/2 clients fewer open streams while the event loop lags.
 *
 * Refusing a call costs nearly as much as answering it. So a server that reads all that its clients send, when that is
 * too much, spends its time on refusals, while the calls that it could answer wait in sockets for seconds. Fewer streams
 * cost it nothing: further calls wait at the client, until it is their turn or their deadline is over. Streams that a
 * client opens before it learns of the change are reset with REFUSED_STREAM, which says that the call was not read and
 * may be made again; most clients do so by themselves. A client that opens one above the quota after it has confirmed it
 * breaks the protocol, and nghttp2 ends its connection. OkHttp does so now and then, because it confirms a quota before
 * its connection pool knows of it; Go's clients, grpc-go and node:http2 do not. The HTTP client of the JDK fails calls
 * above the quota by itself instead of letting them wait.
 */
export class StreamQuota {
  readonly #of: QuotaSessions;
  // Deno makes up for the intervals that it has missed.
  #timer: NodeJS.Timeout;
  #streams = MAX_STREAMS;
  #checkedAt = performance.now();
  #changedAt = Number.NEGATIVE_INFINITY;
  #lateChecks = 0;

  constructor(of: QuotaSessions) {
    this.#of = of;
    this.#timer = this.#checkLater();
  }

  /** Applies the quota to a new session. */
  opened(session: Http2Session): void {
    // Only one change may be under way, so what has changed meanwhile is applied when the client has confirmed it.
    session.on("localSettings", () => this.#apply(session));
  }

  close(): void {
    clearTimeout(this.#timer);
  }

  #checkLater(): NodeJS.Timeout {
    return setTimeout(() => this.#check(), CHECK_MS).unref();
  }

  #check(): void {
    this.#timer = this.#checkLater();
    const now = performance.now();
    const lagMs = now - this.#checkedAt - CHECK_MS;
    this.#checkedAt = now;
    this.#lateChecks = lagMs > MAX_LAG_MS ? this.#lateChecks + 1 : 0;
    if (this.#lateChecks >= LATE_CHECKS) {
      this.#set(Math.max(MIN_STREAMS, Math.floor(this.#streams * Math.max(MIN_SHARE, MAX_LAG_MS / lagMs))), now);
    } else if (this.#lateChecks === 0 && now - this.#changedAt >= CALM_MS) {
      this.#set(Math.min(MAX_STREAMS, this.#streams * GROWTH), now);
    }
  }

  #set(streams: number, now: number): void {
    this.#changedAt = now;
    if (streams === this.#streams) return;
    this.#streams = streams;
    for (const session of this.#of.sessions()) this.#apply(session);
  }

  #apply(session: Http2Session): void {
    if (session.closed || session.destroyed || session.pendingSettingsAck) return;
    const lasting = this.#of.streamingCalls?.(session) ?? 0;
    const maxConcurrentStreams = Math.min(MAX_STREAMS, this.#streams + lasting);
    if (session.localSettings.maxConcurrentStreams === maxConcurrentStreams) return;
    session.settings({ maxConcurrentStreams });
    // Deno sends SETTINGS with what it sends next, which may be an answer that waits for them.
    session.ping(() => {});
  }
}
