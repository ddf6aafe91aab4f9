import type { IncomingMessage, ServerResponse } from "node:http";
import { constants, type ServerHttp2Stream } from "node:http2";
import type { Readable } from "node:stream";
import { Code, ConnectError } from "@connectrpc/connect";
import type { HeaderRecord, HttpRequest, HttpResponse, Route } from "../exchange.ts";
import { REQUEST_TIMEOUT } from "../limits.ts";
import type { Refusal, Refuse } from "../protocol/refusals.ts";
import { type BodyReceiver, IncomingBody } from "./body.ts";
import {
  type Charge,
  type ClientBudget,
  type EvictionReason,
  type Holding,
  type Turn,
  UNIT_BYTES,
  type Unfinished,
} from "./client-budget.ts";

const EMPTY = new Uint8Array(0);

/** Tells which client a connection belongs to, or a request, by the peer's address and the headers of the request. */
export type ClientOf = (peerAddress: string, headers?: HeaderRecord) => string | undefined;

/** What all exchanges share. */
export interface ExchangeContext {
  /** For bodies that arrive slowly. */
  readonly bodies: ClientBudget;
  /** For responses that are read slowly. */
  readonly answers: ClientBudget;
  /** For streaming calls, bodies of calls that anyone may make, and the rest of requests that are answered already. */
  readonly streams: ClientBudget;
  readonly turn: Turn;
  readonly clientOf: ClientOf;
  /** How long a body may take to arrive, and that of a call that anyone may make, in milliseconds. */
  readonly arrivalTimeoutMs: number;
  readonly openArrivalTimeoutMs: number;
  /** How long a client may take to read a response, in milliseconds. */
  readonly readTimeoutMs: number;
  /** Makes the response to refused requests. */
  readonly refuse: Refuse;
  /** Called with unexpected errors. */
  readonly onError: ((error: unknown) => void) | undefined;
}

/** The `error` listener of requests and responses: such errors mean that the client disconnected. */
export function ignore(): void {}

/** A request of node:http or node:http2, and where its response goes. */
export abstract class Exchange implements HttpRequest, BodyReceiver, Holding, Unfinished {
  abstract readonly httpMethod: string;
  abstract readonly target: string;
  abstract readonly headers: HeaderRecord;
  readonly arrived = Date.now();
  body: Uint8Array = EMPTY;
  readonly context: ExchangeContext;
  readonly response: ServerResponse | ServerHttp2Stream;
  /** Set while the body arrives, and from then on. */
  #route: Route | undefined;
  #charged: { readonly charge: Charge; readonly budget: ClientBudget } | undefined;
  /** How many bytes the response has. */
  #responseBytes = 0;

  constructor(response: ServerResponse | ServerHttp2Stream, context: ExchangeContext) {
    this.response = response;
    this.context = context;
    response.on("error", ignore);
  }

  abstract peerAddress(): string;
  abstract url(): string;
  /**
   * Whether the client has disconnected. A failure after that is its consequence, and is not reported: clients may
   * disconnect at any moment, and one error each would flood the log.
   */
  abstract get isDisconnected(): boolean;
  /** Whether the client has reset the request, which HTTP/1.1 cannot. */
  protected abstract get isReset(): boolean;
  /** The body, which is asked for where the client waits for that; undefined when there is none. */
  protected abstract openBody(): Readable | undefined;
  /** The request and response as Connect's adapter takes them, for a streaming call. Nothing else may read or write. */
  abstract handOver(): [req: IncomingMessage, res: ServerResponse];
  /**
   * Writes the response. This may happen before the body is read; up to 16 MiB of the rest is discarded.
   *
   * @throws when a header is not valid
   */
  abstract write(response: HttpResponse): void;
  /** Ends the exchange without a response. @param code HTTP/2's error code */
  abstract reset(code: number): void;
  /** Whether the kernel has taken the response. */
  protected abstract get isWritten(): boolean;
  /** Whether the response is written, and whatever is needed of the request is read. */
  protected abstract get isFinished(): boolean;
  /** Ends the exchange of a client that does not read the response, or does not end the request. */
  abstract evict(reason: EvictionReason): void;

  /** Reads the body if the route wants it, serves the request and writes the response. */
  serve(route: Route): void {
    this.#route = route;
    const source = route.isTooLong && this.openBody();
    if (source) new IncomingBody(source, route, this);
    else void this.#answer(route);
  }

  get turn(): Turn {
    return this.context.turn;
  }

  /** The client that the exchange is charged to. */
  get client(): string | undefined {
    return this.context.clientOf(this.peerAddress(), this.headers);
  }

  bodyBudget() {
    const { bodies, streams, arrivalTimeoutMs, openArrivalTimeoutMs } = this.context;
    const { client } = this;
    return this.#route?.isOpen
      ? { budget: streams, client, timeoutMs: openArrivalTimeoutMs }
      : { budget: bodies, client, timeoutMs: arrivalTimeoutMs };
  }

  onBody(body: Uint8Array): void {
    this.body = body;
    if (this.#route) void this.#answer(this.#route);
  }

  onBodyEvicted(reason: EvictionReason): void {
    if (reason === "over-budget") this.refuse({ kind: "too-many-bodies" });
    else this.refuse({ ...REQUEST_TIMEOUT, requestMs: this.bodyBudget().timeoutMs });
  }

  /**
   * Has the client charged for the response, and the rest of the request, if they outlive this turn of the event loop. Long
   * responses mostly do, and many of them must not come together before it ends.
   */
  protected charge(responseBytes: number): void {
    this.#responseBytes = responseBytes;
    if (responseBytes > UNIT_BYTES) this.outliveTurn();
    else this.turn.begin(this);
  }

  outliveTurn(): void {
    if (this.#charged || this.isFinished) return;
    const { answers, streams, readTimeoutMs, arrivalTimeoutMs } = this.context;
    // The rest of a request is discarded: only its stream is held.
    const budget = this.isWritten ? streams : answers;
    const timeoutMs = this.isWritten ? arrivalTimeoutMs : readTimeoutMs;
    const bytes = this.isWritten ? 0 : this.#responseBytes;
    const charge = budget.charge(this.client, this, { bytes, timeoutMs });
    if (!charge) {
      this.evict("over-budget");
      return;
    }
    this.#charged = { charge, budget };
    for (const event of ["finish", "end", "close"]) this.response.on(event, () => this.settle());
  }

  /** Releases what the client is charged once the exchange is finished. */
  protected settle(): void {
    if (this.#charged && this.isFinished) this.#charged.budget.release(this.#charged.charge);
  }

  isOver(): boolean {
    return this.isFinished;
  }

  async #answer(route: Route): Promise<void> {
    if (this.isReset) return;
    try {
      const response = await route.serve(this);
      // The rest of the request may still arrive, but nobody needs the body.
      this.body = EMPTY;
      this.write(response);
    } catch (error) {
      this.fail(error);
    } finally {
      route.end?.();
    }
  }

  /**
   * Refuses the request without waiting for its body, and closes an HTTP/1.1 connection. This happens in event listeners
   * and while other requests are read, where an exception would end the process or fail another request.
   */
  refuse(refusal: Refusal): void {
    try {
      this.write(this.context.refuse(refusal, this.headers));
    } catch (error) {
      this.fail(error);
    }
  }

  /** Ends the exchange because of an unexpected error. */
  fail(error: unknown): void {
    const isConnected = !this.isDisconnected;
    this.reset(constants.NGHTTP2_INTERNAL_ERROR);
    if (isConnected) this.context.onError?.(error);
  }

  /** A signal that aborts when the client disconnects before the response begins. */
  requestSignal(): AbortSignal {
    const { response } = this;
    const controller = new AbortController();
    const onClose = () => {
      if (!response.headersSent) controller.abort(new ConnectError("the client disconnected", Code.Canceled));
    };
    if (response.destroyed) onClose();
    else response.once("close", onClose);
    return controller.signal;
  }

  protected absoluteUrl(isEncrypted: boolean, authority: string | undefined): string {
    return new URL(this.target, `${isEncrypted ? "https" : "http"}://${authority ?? "localhost"}`).toString();
  }
}
