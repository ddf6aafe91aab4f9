import { parseTimeout as parseConnectTimeout } from "@connectrpc/connect/protocol-connect";
import { parseTimeout as parseGrpcTimeout } from "@connectrpc/connect/protocol-grpc";
import type { HeaderRecord } from "../exchange.ts";
import { formatOf } from "../protocol/content-types.ts";
import { type ConnectionHoldings, type Held, Holdings } from "./holdings.ts";

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

/** Bounds how many streams are open, and how long. */
export class OpenStreams {
  readonly #max: number;
  readonly #maxOfConnection: number;
  readonly #lifetimeMs: number;
  readonly #open: Holdings;
  readonly #ofConnection = new WeakMap<object, number>();

  constructor({ max = Infinity, maxOfConnection = Infinity, lifetimeMs = Infinity }: OpenStreamsOptions = {}) {
    this.#max = max;
    this.#maxOfConnection = maxOfConnection;
    this.#lifetimeMs = lifetimeMs;
    // By then its deadline has ended a stream, unless nobody reads it.
    const timeoutMs = lifetimeMs + Math.min(30_000, lifetimeMs);
    this.#open = new Holdings({ timeoutMs, maxBytes: Infinity, maxConnectionBytes: Infinity, ownBytes: 0 });
  }

  /**
   * Lets a stream in; undefined when there are too many.
   *
   * @param connection undefined where the runtime does not tell which it is
   * @param end ends the stream, whose time is up
   */
  enter(connection: object | undefined, end: () => void): OpenStream | undefined {
    if (this.#open.size >= this.#max) return undefined;
    const others = connection === undefined ? 0 : (this.#ofConnection.get(connection) ?? 0);
    if (others >= this.#maxOfConnection) return undefined;
    if (connection !== undefined) this.#ofConnection.set(connection, others + 1);
    const leave = () => {
      if (this.#open.remove(held)) giveBack();
    };
    const giveBack = () => {
      if (connection !== undefined) this.#ofConnection.set(connection, (this.#ofConnection.get(connection) ?? 1) - 1);
    };
    const held: Held = {
      bytes: 0,
      since: 0,
      connection: undefined as ConnectionHoldings | undefined,
      giveUp: () => {
        giveBack();
        end();
      },
    };
    this.#open.add(held, 0);
    return { leave };
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
