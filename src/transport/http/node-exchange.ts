import type { IncomingMessage, ServerResponse } from "node:http";
import { constants, type ServerHttp2Stream } from "node:http2";
import type { Readable } from "node:stream";
import { Code, ConnectError } from "@connectrpc/connect";
import type { HeaderRecord, HttpRequest, HttpResponse, Route } from "../exchange.ts";
import type { Refusal, Refuse } from "../protocol/refusals.ts";
import { collectBody } from "./body.ts";
import type { EvictionReason, MemoryBudget } from "./memory-budget.ts";

const EMPTY = new Uint8Array(0);

/** What all exchanges share. */
export interface ExchangeContext {
  /** For bodies that are being received. */
  readonly bodies: MemoryBudget;
  /** For the unread rest of requests that are already answered. */
  readonly discards: MemoryBudget;
  /** For responses that are being written. */
  readonly answers: MemoryBudget;
  /** Makes the response to refused requests. */
  readonly refuse: Refuse;
  /** Why requests are refused whose body was evicted. */
  readonly evictionRefusals: { readonly [reason in EvictionReason]: Refusal };
  /** Called with unexpected errors. */
  readonly onError: ((error: unknown) => void) | undefined;
}

/** The `error` listener of requests and responses: such errors mean that the client disconnected. */
export function ignore(): void {}

/** A request of node:http or node:http2, and where its response goes. */
export abstract class Exchange implements HttpRequest {
  abstract readonly httpMethod: string;
  abstract readonly target: string;
  abstract readonly headers: HeaderRecord;
  readonly arrived = Date.now();
  body: Uint8Array = EMPTY;
  readonly context: ExchangeContext;
  readonly response: ServerResponse | ServerHttp2Stream;
  /** An object that stands for the connection. */
  abstract readonly connection: object;

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

  /** Reads the body if the route wants it, serves the request and writes the response. */
  serve(route: Route): void {
    const source = route.isTooLong && this.openBody();
    if (!source) {
      void this.#answer(route);
      return;
    }
    const { bodies, evictionRefusals } = this.context;
    const onBody = (body: Uint8Array) => {
      this.body = body;
      void this.#answer(route);
    };
    const onEvicted = (reason: EvictionReason) => this.refuse(evictionRefusals[reason]);
    collectBody(source, { route, bodies, connection: this.connection }, { onBody, onEvicted });
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
