import { clearTimeout, setTimeout } from "node:timers";
import { parseTimeout as parseConnectTimeout } from "@connectrpc/connect/protocol-connect";
import { parseTimeout as parseGrpcTimeout } from "@connectrpc/connect/protocol-grpc";
import type { HeaderRecord } from "../exchange.ts";
import { formatOf } from "../protocol/content-types.ts";
import { MAX_TIMER_MS } from "../protocol/deadlines.ts";

/** Bounds of streams. */
export interface OpenStreamsOptions {
  /** How many may be open at once. Default: any number. */
  readonly max?: number | undefined;
  /** How many of them one connection may have. Default: any number. */
  readonly maxOfConnection?: number | undefined;
  /** How long one may last, in milliseconds; whoever watches asks again. Default: as long as it likes. */
  readonly lifetimeMs?: number | undefined;
}

/** A stream that is let in. */
export interface OpenStream {
  /** It has ended; whatever comes after the first time is passed over. */
  readonly leave: () => void;
}

/** What a stream that nobody reads may last longer than its deadline, in milliseconds. */
const UNREAD_MS = 30_000;

/** Bounds how many streams are open, and how long. */
export class OpenStreams {
  readonly #max: number;
  readonly #maxOfConnection: number;
  readonly #lifetimeMs: number;
  readonly #ofConnection = new WeakMap<object, number>();
  #open = 0;

  constructor({ max = Infinity, maxOfConnection = Infinity, lifetimeMs = Infinity }: OpenStreamsOptions = {}) {
    this.#max = max;
    this.#maxOfConnection = maxOfConnection;
    this.#lifetimeMs = lifetimeMs;
  }

  /**
   * Lets a stream in; undefined when there are too many.
   *
   * @param connection undefined where the runtime does not tell which it is
   * @param end ends the stream, whose time is up
   */
  enter(connection: object | undefined, end: () => void): OpenStream | undefined {
    if (this.#open >= this.#max) return undefined;
    const others = connection ? (this.#ofConnection.get(connection) ?? 0) : 0;
    if (others >= this.#maxOfConnection) return undefined;
    this.#count(connection, 1);
    let isOpen = true;
    const leave = () => {
      clearTimeout(timer);
      if (isOpen) this.#count(connection, -1);
      isOpen = false;
    };
    const timer = this.#whenOver(() => {
      leave();
      end();
    });
    return { leave };
  }

  #count(connection: object | undefined, by: 1 | -1): void {
    this.#open += by;
    if (connection) this.#ofConnection.set(connection, (this.#ofConnection.get(connection) ?? 0) + by);
  }

  /** Its deadline ends a stream, unless nobody reads it. */
  #whenOver(then: () => void): NodeJS.Timeout | undefined {
    const ms = this.#lifetimeMs + Math.min(UNREAD_MS, this.#lifetimeMs);
    return ms > MAX_TIMER_MS ? undefined : setTimeout(then, ms).unref();
  }

  /** Gives a stream a deadline when it has none or a later one: so it ends in its own protocol. */
  limitDeadline(headers: HeaderRecord): void {
    if (this.#lifetimeMs === Infinity) return;
    const isGrpc = formatOf(headers["content-type"]).protocol !== "connect";
    const name = isGrpc ? "grpc-timeout" : "connect-timeout-ms";
    const given = headers[name] === undefined ? null : String(headers[name]);
    const { timeoutMs, error } = (isGrpc ? parseGrpcTimeout : parseConnectTimeout)(given, Infinity);
    // What cannot be parsed is for its protocol to refuse.
    if (error !== undefined || (timeoutMs !== undefined && timeoutMs <= this.#lifetimeMs)) return;
    headers[name] = isGrpc ? `${this.#lifetimeMs}m` : String(this.#lifetimeMs);
  }
}
