import type { IncomingMessage, ServerResponse } from "node:http";
import { constants, type ServerHttp2Stream } from "node:http2";
import type { Readable } from "node:stream";
import { Code, ConnectError } from "@connectrpc/connect";
import { universalRequestFromNodeRequest, universalResponseToNodeResponse } from "@connectrpc/connect-node";
import type { Find, HeaderRecord, HttpRequest, HttpResponse, Route, StreamRoute } from "../exchange.ts";
import { type Limits, REQUEST_TIMEOUT } from "../limits.ts";
import type { Refusal, Refuse } from "../protocol/refusals.ts";
import { prepareStreamHeaders } from "../protocol/stream-headers.ts";
import { ArrivingBody, EMPTY } from "./body.ts";
import {
  type Charge,
  type ClientBudget,
  type EvictionReason,
  type Holding,
  type Turn,
  UNIT_BYTES,
  type Unfinished,
} from "./client-budget.ts";

/** How long a stream may outlive its deadline when its client does not read, in milliseconds. */
const UNREAD_MS = 30_000;

/** What serves the requests of a port. */
export interface RequestHandlers {
  /** Finds the route of a request. */
  readonly find: Find;
  /** Makes the response to refused requests. */
  readonly refuse: Refuse;
  /** Called with unexpected errors. Only the request at hand fails. */
  readonly onError?: ((error: unknown) => void) | undefined;
}

/** What all requests of a port share. */
export interface RequestContext extends RequestHandlers {
  readonly limits: Limits;
  readonly turn: Turn;
  /** For bodies that arrive slowly. */
  readonly bodies: ClientBudget;
  /** For responses that are read slowly. */
  readonly responses: ClientBudget;
  /** For streaming calls, bodies of calls that anyone may make, and the rest of requests that are answered already. */
  readonly streams: ClientBudget;
}

/** The `error` listener of requests and responses: such errors mean that the client disconnected. */
export function ignore(): void {}

/** A request of node:http or node:http2, and where its response goes. */
export abstract class ServerRequest implements HttpRequest, Holding, Unfinished {
  abstract readonly httpMethod: string;
  abstract readonly target: string;
  abstract readonly headers: HeaderRecord;
  readonly arrived = Date.now();
  body: Uint8Array = EMPTY;
  protected readonly context: RequestContext;
  readonly #response: ServerResponse | ServerHttp2Stream;
  /** Set while the body arrives, and from then on. */
  #route: Route | undefined;
  /** Of the body while it arrives, then of the response and the rest of the request. */
  #charge: Charge | undefined;
  /** The body, until it is complete, too long or given up. */
  #arriving: ArrivingBody | undefined;
  /** How many bytes a response has that is written, but not charged yet. */
  #responseBytes: number | undefined;
  /** How often the request is in the list of what began in a turn. */
  #turns = 0;

  constructor(response: ServerResponse | ServerHttp2Stream, context: RequestContext) {
    this.#response = response;
    this.context = context;
    response.on("error", ignore);
  }

  abstract peerAddress(): string;
  protected abstract get isEncrypted(): boolean;
  /**
   * Whether the client has disconnected. A failure after that is its consequence, and is not reported: clients may
   * disconnect at any moment, and one error each would flood the log.
   */
  abstract get isDisconnected(): boolean;
  /** The body, which is asked for where the client waits for that; undefined when there is none. */
  protected abstract openBody(): Readable | undefined;
  /** The request and response as Connect's adapter takes them, for a streaming call. Nothing else may read or write. */
  protected abstract handOver(): [req: IncomingMessage, res: ServerResponse];
  /**
   * Writes the response. This may happen before the body is read; up to 16 MiB of the rest is discarded.
   *
   * @throws when a header is not valid
   */
  protected abstract respond(response: HttpResponse): void;
  /** Ends the request without a response. @param code HTTP/2's error code */
  protected abstract reset(code: number): void;
  /** Whether the kernel has taken the response. */
  protected abstract get isWritten(): boolean;
  /** Ends the request of a client that does not read the response, or does not end the request. */
  protected abstract abandon(reason: EvictionReason): void;

  /** Whether the client has reset the request, which HTTP/1.1 cannot. */
  protected get isReset(): boolean {
    return false;
  }

  /** Whether the response is written, and whatever is needed of the request is read. node:http sees to the latter. */
  isOver(): boolean {
    return this.isWritten;
  }

  /** Finds the route and serves the request. Never throws: an exception would end the process. */
  serve(): void {
    try {
      const found = this.context.find(this);
      if (!(found instanceof Promise)) this.#serveBy(found);
      // The client may have disconnected meanwhile.
      else found.then((route) => this.#response.destroyed || this.#serveBy(route)).catch((error) => this.fail(error));
    } catch (error) {
      this.fail(error);
    }
  }

  /** Reads the body if the route wants it, serves the request and writes the response. */
  #serveBy(route: Route | StreamRoute): void {
    if ("handler" in route) {
      this.#serveStream(route);
      return;
    }
    this.#route = route;
    const source = route.isTooLong && this.openBody();
    if (source) this.#receive(source);
    else void this.#answer(route);
  }

  #receive(source: Readable): void {
    this.#arriving = new ArrivingBody(source);
    source.on("data", (chunk: Uint8Array) => this.#take(chunk));
    source.once("end", () => this.#endBody());
    // An empty body may have ended while its route was being found.
    if (source.readableEnded) this.#endBody();
    else this.#beginTurn();
  }

  #take(chunk: Uint8Array): void {
    const [body, charge] = [this.#arriving, this.#charge];
    // Of a body that was too long or given up, the rest is discarded.
    if (!body) return;
    body.add(chunk);
    if (this.#route?.isTooLong?.(body.bytes)) {
      this.#endBody();
    } else if (charge) {
      // The body is slow, so what it holds may be held for long.
      body.compact();
      charge.budget.resize(charge, body.heldBytes);
    }
  }

  #endBody(): void {
    const [body, route] = [this.#arriving, this.#route];
    if (!body || !route) return;
    this.#arriving = undefined;
    this.#charge?.budget.release(this.#charge);
    this.#charge = undefined;
    this.body = body.bytes;
    void this.#answer(route);
  }

  /** Serves a streaming call by Connect's own handler, unless its client has too many open. */
  #serveStream({ handler, contextValues }: StreamRoute): void {
    const { streams, limits, refuse, onError } = this.context;
    const { lifetimeMs = Infinity } = limits.streams;
    const evict = (reason: EvictionReason) => this.reset(EVICTION_CODE[reason]);
    // The deadline normally ends a stream. The timeout ends streams whose client does not read.
    const timeoutMs = lifetimeMs + Math.min(UNREAD_MS, lifetimeMs);
    const charge = streams.charge(this.client, { evict }, { timeoutMs });
    if (!charge) {
      this.respond(refuse({ kind: "too-many-streams" }, this.headers, handler.method));
      return;
    }
    this.#response.once("close", () => streams.release(charge));
    const [req, res] = this.handOver();
    // An `error` event without a listener would end the process.
    req.on("error", ignore);
    res.on("error", ignore);
    prepareStreamHeaders(req.headers as HeaderRecord, lifetimeMs);
    handler(universalRequestFromNodeRequest(req, res, undefined, contextValues))
      .then((response) => universalResponseToNodeResponse(response, res))
      .catch((reason: unknown) => {
        // A response that cannot be written because the client disconnected is not an error of the server.
        if (ConnectError.from(reason).code !== Code.Aborted && !this.isDisconnected) onError?.(reason);
      });
  }

  /** The client that the request is charged to. */
  get client(): string | undefined {
    return this.context.limits.clientOf(this.peerAddress(), this.headers);
  }

  get #arrivalTimeoutMs(): number {
    const { arrivalTimeoutMs, openArrivalTimeoutMs } = this.context.limits;
    return this.#route?.isOpen ? Math.min(openArrivalTimeoutMs, arrivalTimeoutMs) : arrivalTimeoutMs;
  }

  evict(reason: EvictionReason): void {
    if (!this.#arriving) {
      this.abandon(reason);
      return;
    }
    this.#arriving = undefined;
    this.#charge = undefined;
    if (reason === "over-budget") this.refuse({ kind: "too-many-bodies" });
    else this.refuse({ ...REQUEST_TIMEOUT, requestMs: this.#arrivalTimeoutMs });
  }

  async #answer(route: Route): Promise<void> {
    if (this.isReset) return;
    try {
      const response = await route.serve(this);
      // The rest of the request may still arrive, but nobody needs the body.
      this.body = EMPTY;
      this.respond(response);
    } catch (error) {
      this.fail(error);
    } finally {
      route.end?.();
    }
  }

  /**
   * Has the client charged for the response, and the rest of the request, if they outlive this turn of the event loop. Long
   * responses mostly do, and many of them must not come together before it ends.
   */
  protected charge(responseBytes: number): void {
    this.#responseBytes = responseBytes;
    if (responseBytes > UNIT_BYTES) this.#chargeResponse(responseBytes);
    else this.#beginTurn();
  }

  #beginTurn(): void {
    this.#turns++;
    this.context.turn.begin(this);
  }

  outliveTurn(): void {
    // What began later than this has until the end of its own turn.
    if (--this.#turns > 0) return;
    if (this.#arriving) this.#chargeBody(this.#arriving);
    else if (this.#responseBytes !== undefined) this.#chargeResponse(this.#responseBytes);
  }

  #chargeBody(body: ArrivingBody): void {
    const { source } = body;
    // The connection may have closed while the request waited in a pipeline.
    if (source.destroyed) return;
    body.compact();
    const budget = this.#route?.isOpen ? this.context.streams : this.context.bodies;
    const options = { bytes: body.heldBytes, timeoutMs: this.#arrivalTimeoutMs };
    const charge = budget.charge(this.client, this, options);
    this.#charge = charge;
    if (charge) source.once("close", () => budget.release(charge));
    else this.evict("over-budget");
  }

  #chargeResponse(bytes: number): void {
    this.#responseBytes = undefined;
    if (this.#charge || this.isOver()) return;
    const { responses, streams, limits } = this.context;
    // Once the response is written, the rest of the request is discarded: only its stream is held.
    this.#charge = this.isWritten
      ? streams.charge(this.client, this, { timeoutMs: limits.arrivalTimeoutMs })
      : responses.charge(this.client, this, { bytes, timeoutMs: limits.readTimeoutMs });
    if (!this.#charge) {
      this.abandon("over-budget");
      return;
    }
    for (const event of ["finish", "end", "close"]) this.#response.on(event, () => this.settle());
  }

  /** Releases what the client is charged once the request is finished. */
  protected settle(): void {
    if (this.#charge && this.isOver()) this.#charge.budget.release(this.#charge);
  }

  /**
   * Refuses the request without waiting for its body, and closes an HTTP/1.1 connection. This happens in event listeners
   * and while other requests are read, where an exception would end the process or fail another request.
   */
  refuse(refusal: Refusal): void {
    try {
      this.respond(this.context.refuse(refusal, this.headers));
    } catch (error) {
      this.fail(error);
    }
  }

  /** Ends the request because of an unexpected error. */
  protected fail(error: unknown): void {
    const isConnected = !this.isDisconnected;
    this.reset(constants.NGHTTP2_INTERNAL_ERROR);
    if (isConnected) this.context.onError?.(error);
  }

  /** A signal that aborts when the client disconnects before the response begins. */
  requestSignal(): AbortSignal {
    const response = this.#response;
    const controller = new AbortController();
    const onClose = () => {
      if (!response.headersSent) controller.abort(new ConnectError("the client disconnected", Code.Canceled));
    };
    if (response.destroyed) onClose();
    else response.once("close", onClose);
    return controller.signal;
  }

  url(): string {
    const authority = this.headers[":authority"] ?? this.headers["host"];
    return new URL(this.target, `${this.isEncrypted ? "https" : "http"}://${authority}`).toString();
  }
}

/** HTTP/2's error code for a stream that gives way. */
export const EVICTION_CODE: { readonly [reason in EvictionReason]: number } = {
  timeout: constants.NGHTTP2_CANCEL,
  "over-budget": constants.NGHTTP2_ENHANCE_YOUR_CALM,
};

/** Removes the IPv6 prefix that a dual-stack socket adds to IPv4 addresses. Empty when the address is not known. */
export function plainAddress(address: string | undefined): string {
  return address?.replace(/^::ffff:(?=\d+\.)/i, "") ?? "";
}
