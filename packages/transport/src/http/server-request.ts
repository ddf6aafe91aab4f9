import type { IncomingMessage, ServerResponse } from "node:http";
import { constants, type ServerHttp2Stream } from "node:http2";
import type { Readable } from "node:stream";
import { Code, ConnectError } from "@connectrpc/connect";
import { universalRequestFromNodeRequest, universalResponseToNodeResponse } from "@connectrpc/connect-node";
import type {
  Find,
  HeaderRecord,
  HttpRequest,
  HttpResponse,
  PausedConnection,
  Route,
  StreamRoute,
} from "../http-types.ts";
import type { Limits } from "../limits.ts";
import type { Refusal, Refuse } from "../protocol/refusals.ts";
import { prepareStreamHeaders } from "../protocol/stream-headers.ts";
import { append, copyOf } from "./body.ts";
import { type Charge, type ClientBudget, type EvictionReason, type Resource, UNIT_BYTES } from "./client-budget.ts";
import type { DelayedCharges, Unfinished } from "./delayed-charges.ts";

const EMPTY = Buffer.alloc(0);

/** If the client does not read, a stream may exceed its maximum duration by this time, in milliseconds. */
const UNREAD_MS = 30_000;

/** The time in which the kernel must take a short response that exceeds the budget, in milliseconds. */
const SHORT_WRITE_MS = 250;

export interface RequestHandlers {
  readonly find: Find;
  readonly refuse: Refuse;
  /** Called with unexpected errors. Each error affects one request only. */
  readonly onError?: ((error: unknown) => void) | undefined;
}

export interface RequestContext extends RequestHandlers {
  readonly limits: Limits;
  readonly delayedCharges: DelayedCharges;
  readonly scheme: "https" | "http";
  readonly bodies: ClientBudget;
  readonly responses: ClientBudget;
  /**
   * Limits the number of open streams (see `StreamLimits.max`). If `responses` has no room for a short response, the
   * response is charged to this budget for at most `SHORT_WRITE_MS`.
   */
  readonly streams: ClientBudget;
}

/** Ignores the `error` events of requests and responses. Such an event means that the client has disconnected. */
export function ignore(): void {}

/**
 * A request of node:http or node:http2, and its response. If the body or the response is still unfinished after the
 * next turn of the event loop, the client is charged (see `DelayedCharges`).
 */
export abstract class ServerRequest<NodeResponse extends ServerResponse | ServerHttp2Stream = ServerHttp2Stream>
  implements HttpRequest, Resource, Unfinished
{
  abstract readonly httpMethod: string;
  abstract readonly target: string;
  abstract readonly headers: HeaderRecord;
  readonly arrived = Date.now();
  additions = 0;
  body: Buffer = EMPTY;
  protected readonly response: NodeResponse;
  protected readonly context: RequestContext;
  /** The charge for the body or, later, for the response. A request never has two charges. */
  protected charge: Charge | undefined = undefined;
  /** The route; undefined before the route is found, and again after the route has begun to serve the request. */
  private route: Route | undefined = undefined;
  /** The source of the body; undefined after the body is complete, too long or evicted. */
  private arriving: Readable | undefined = undefined;
  private isCopy = false;
  /** The length of a response that is written but not charged, in bytes. */
  private responseBytes: number | undefined = undefined;

  constructor(response: NodeResponse, context: RequestContext) {
    this.response = response;
    this.context = context;
    response.on("error", ignore);
  }

  abstract peerAddress(): string;
  abstract pauseConnections(caller: string, isFirst: boolean): PausedConnection[];
  abstract get isDisconnected(): boolean;
  abstract get unreadBytes(): number;
  /** Whether the request may have a body. The body may be empty. */
  protected abstract readonly hasBody: boolean;
  /** Returns the body. Sends 100 Continue if the client waits for it. */
  protected abstract openBody(): Readable;
  /** Returns the request and response for Connect's adapter. After this call, only the adapter may read and write. */
  protected abstract handOver(): [req: IncomingMessage, res: ServerResponse];
  /** Writes the response. Discards an unread body. @throws if a header is not valid */
  protected abstract respond(response: HttpResponse): void;
  /** Ends the request without a response. @param code the HTTP/2 error code */
  protected abstract reset(code: number): void;
  /** Whether the kernel has taken the response. */
  protected abstract get isWritten(): boolean;
  /** Ends an evicted response, and its connection if necessary. */
  protected abstract abandon(reason: EvictionReason): void;

  isOver(): boolean {
    return this.isWritten;
  }

  /** Finds the route, reads the body if necessary, and responds. Never throws: an exception would end the process. */
  serve(route?: Route | StreamRoute): void {
    try {
      const found = route ?? this.context.find(this);
      if (found instanceof Promise) {
        // The client may have disconnected during the authorization.
        const serve = (known: Route | StreamRoute) => this.response.destroyed || this.serve(known);
        found.then(serve).catch((error) => this.fail(error));
      } else if ("handler" in found) {
        this.serveStream(found);
      } else {
        this.route = found;
        this.arriving = found.maxBytes === undefined || !this.hasBody ? undefined : this.openBody();
        if (this.arriving) this.receive(this.arriving);
        else void this.answer();
      }
    } catch (error) {
      this.fail(error);
    }
  }

  private receive(source: Readable): void {
    const end = () => {
      if (!this.arriving) return;
      this.arriving = undefined;
      this.charge?.release();
      this.charge = undefined;
      void this.answer();
    };
    source.on("data", (chunk: Buffer) => {
      // If the body is too long or evicted, the rest of the body is discarded.
      if (!this.arriving) return;
      const isFirst = this.body.byteLength === 0;
      this.body = isFirst ? chunk : append(this.body, chunk, this.isCopy);
      this.isCopy = !isFirst;
      if (this.body.byteLength > (this.route?.maxBytes ?? 0)) end();
      else if (this.charge) this.charge.resize(this.compactBody());
    });
    source.once("end", end);
    // An empty body may end before the route is found.
    if (source.readableEnded) end();
    else this.context.delayedCharges.add(this);
  }

  private serveStream({ handler, contextValues }: StreamRoute): void {
    const { streams, limits, refuse, onError } = this.context;
    const { lifetimeMs = Infinity } = limits.streams;
    const evict = (reason: EvictionReason) => this.reset(EVICTION_CODE[reason]);
    // Connect's handler ends the stream after `lifetimeMs`. The charge times out only if the client does not read.
    const timeoutMs = lifetimeMs + Math.min(UNREAD_MS, lifetimeMs);
    const charge = streams.charge(this.client, { evict }, { timeoutMs });
    if (!charge) {
      this.respond(refuse({ kind: "too-many-streams" }, this.headers, handler.method));
      return;
    }
    this.response.once("close", () => charge.release());
    const [req, res] = this.handOver();
    prepareStreamHeaders(req.headers as HeaderRecord, lifetimeMs);
    handler(universalRequestFromNodeRequest(req, res, undefined, contextValues))
      .then((response) => universalResponseToNodeResponse(response, res))
      .catch((reason: unknown) => {
        // If the client has disconnected, a failed write is no error of the server.
        if (ConnectError.from(reason).code !== Code.Aborted && !this.isDisconnected) onError?.(reason);
      });
  }

  private get client(): string | undefined {
    return this.context.limits.clientOf(this.peerAddress(), this.headers);
  }

  /** Whether an unauthenticated client may send this request. */
  private get isOpen(): boolean {
    return this.route?.call?.isOpen !== false;
  }

  private get arrivalTimeoutMs(): number {
    const { arrivalTimeoutMs, openArrivalTimeoutMs } = this.context.limits;
    return this.isOpen ? Math.min(openArrivalTimeoutMs, arrivalTimeoutMs) : arrivalTimeoutMs;
  }

  evict(reason: EvictionReason): void {
    if (!this.arriving) {
      this.abandon(reason);
      return;
    }
    this.arriving = undefined;
    this.body = EMPTY;
    this.charge = undefined;
    const { headerTimeoutMs: headerMs } = this.context.limits;
    if (reason === "over-budget") this.refuse({ kind: "too-many-bodies" });
    else this.refuse({ kind: "request-timeout", headerMs, requestMs: this.arrivalTimeoutMs });
  }

  private async answer(): Promise<void> {
    const { route } = this;
    // node:http2 keeps a stream and its request in memory until the next major garbage collection. Remove the route, so
    // that the request does not keep its call in memory for this time.
    this.route = undefined;
    if (!route) return;
    // If the client has reset the stream, the stream emits `end` even if the body is incomplete.
    if ("aborted" in this.response && this.response.aborted) return;
    try {
      const response = await route.serve(this);
      // The rest of the request may still arrive, so release the memory of the body now.
      this.body = EMPTY;
      this.respond(response);
    } catch (error) {
      this.fail(error);
    } finally {
      route.call?.leave();
    }
  }

  /**
   * Charges the client for a long response immediately, because one turn of the event loop could create many long
   * responses. Charges the client for a short response only if the response is still unsent after the next turn (see
   * `DelayedCharges`).
   */
  protected chargeResponse(bytes: number): void {
    this.responseBytes = bytes;
    if (bytes > UNIT_BYTES && !this.isOver()) this.chargeUnsent(bytes);
    else this.context.delayedCharges.add(this);
  }

  chargeIfUnfinished(): void {
    if (this.arriving) this.chargeBody(this.arriving);
    else if (this.responseBytes !== undefined && !this.isOver()) this.chargeUnsent(this.responseBytes);
  }

  private chargeBody(source: Readable): void {
    // The connection may have closed while the request was waiting in a pipeline.
    if (source.destroyed) return;
    const budget = this.isOpen ? this.context.streams : this.context.bodies;
    const options = { bytes: this.compactBody(), timeoutMs: this.arrivalTimeoutMs };
    const charge = budget.charge(this.client, this, options);
    this.charge = charge;
    if (charge) source.once("close", () => charge.release());
    else this.evict("over-budget");
  }

  /** Copies the body if it takes less than half of its buffer. @returns the size of the body's buffer, in bytes */
  private compactBody(): number {
    const { byteLength, buffer } = this.body;
    if (!this.isCopy && byteLength < buffer.byteLength / 2) {
      this.body = copyOf(this.body, byteLength);
      this.isCopy = true;
    }
    return this.body.buffer.byteLength;
  }

  /**
   * Charges the client for an unsent response. If the response is already sent, charges the client for the open stream
   * of the request instead.
   */
  private chargeUnsent(bytes: number): void {
    this.responseBytes = undefined;
    if (this.charge) return;
    const { responses, streams, limits } = this.context;
    // If the response is sent, the rest of the request is discarded, so the request needs memory only for its stream.
    this.charge = this.isWritten
      ? streams.charge(this.client, this, { timeoutMs: limits.arrivalTimeoutMs })
      : responses.charge(this.client, this, { bytes, timeoutMs: limits.readTimeoutMs });
    // On Deno over TLS, the kernel receives even a short response only some turns of the event loop after the write. So
    // allow `SHORT_WRITE_MS`.
    if (!this.charge && !this.isWritten && bytes <= UNIT_BYTES)
      this.charge = streams.charge(this.client, this, { timeoutMs: SHORT_WRITE_MS });
    if (!this.charge) {
      this.abandon("over-budget");
      return;
    }
    for (const event of ["finish", "end", "close"]) this.response.on(event, () => this.settle());
  }

  protected settle(): void {
    if (this.charge && this.isOver()) this.charge.release();
  }

  /**
   * Refuses the request immediately, even if the body has not arrived. Over HTTP/1.1, also closes the connection. Never
   * throws, because an exception in an event listener would end the process or fail another request.
   */
  refuse(refusal: Refusal): void {
    try {
      this.respond(this.context.refuse(refusal, this.headers));
    } catch (error) {
      this.fail(error);
    }
  }

  protected fail(error: unknown): void {
    const isConnected = !this.isDisconnected;
    this.reset(constants.NGHTTP2_INTERNAL_ERROR);
    if (isConnected) this.context.onError?.(error);
  }

  /** Creates a signal that aborts if the client disconnects before the response begins. */
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

  url(): string {
    const authority = this.headers[":authority"] ?? this.headers["host"];
    return new URL(this.target, `${this.context.scheme}://${authority}`).toString();
  }
}

/** The refusal of an `Expect` other than `100-continue` (RFC 9110, 10.1.1). */
export const EXPECTATION_FAILED: Refusal = { kind: "expectation-failed" };

/** Matches a host and a port (RFC 3986, 3.2.2 and 3.2.3). The host and the port may be empty. */
const HOST = /^(?:[\w.~!$&'()*+,;=%-]*|\[[\da-f:.]+\])(?::\d*)?$/i;

/**
 * The last valid host. Most requests have this host, so they need no check. The check costs 3 % of the CPU of a call.
 */
let lastHost: string | undefined;

/** Returns whether a URL can be built from a host. Connect's adapter throws on an invalid host. */
export function isHost(text: string): boolean {
  if (text === lastHost) return true;
  if (!HOST.test(text) || !URL.canParse(`http://${text}`)) return false;
  lastHost = text;
  return true;
}

/** The HTTP/2 error code of an evicted stream. */
export const EVICTION_CODE: { readonly [reason in EvictionReason]: number } = {
  timeout: constants.NGHTTP2_CANCEL,
  "over-budget": constants.NGHTTP2_ENHANCE_YOUR_CALM,
};

/** Removes the IPv6 prefix that a dual-stack socket adds to an IPv4 address. Returns "" for an unknown address. */
export function plainAddress(address: string | undefined): string {
  return address?.replace(/^::ffff:(?=\d+\.)/i, "") ?? "";
}
