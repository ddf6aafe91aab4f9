import type { IncomingMessage, ServerResponse } from "node:http";
import { constants, type ServerHttp2Stream } from "node:http2";
import type { Readable } from "node:stream";
import { Code, ConnectError } from "@connectrpc/connect";
import { universalRequestFromNodeRequest, universalResponseToNodeResponse } from "@connectrpc/connect-node";
import type { Find, HeaderRecord, HttpRequest, HttpResponse, Route, StreamRoute } from "../http-types.ts";
import type { Limits } from "../limits.ts";
import type { Refusal, Refuse } from "../protocol/refusals.ts";
import { prepareStreamHeaders } from "../protocol/stream-headers.ts";
import { append, copyOf } from "./body.ts";
import { type Charge, type ClientBudget, type EvictionReason, type Holding, UNIT_BYTES } from "./client-budget.ts";

/** A request without a body has this one. */
const EMPTY = Buffer.alloc(0);

/** How long a stream may outlive its deadline when its client does not read, in milliseconds. */
const UNREAD_MS = 30_000;

/** How long the kernel may take for a short response for which there is no room, in milliseconds. */
const SHORT_WRITE_MS = 250;

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
  /**
   * For what may stay long and holds little memory: streaming calls, bodies of calls that anyone may make, and the rest of
   * requests that are answered already. Also, for a moment, for short responses that found no room.
   */
  readonly lingering: ClientBudget;
}

/** The `error` listener of requests and responses: such errors mean that the client disconnected. */
export function ignore(): void {}

/**
 * A request of node:http or node:http2, and where its response goes. Its body while it arrives, and its response until
 * it is read, are charged to its client if they outlive their turn of the event loop: see `Turn`.
 */
export abstract class ServerRequest<NodeResponse extends ServerResponse | ServerHttp2Stream = ServerHttp2Stream>
  implements HttpRequest, Holding, Unfinished
{
  abstract readonly httpMethod: string;
  abstract readonly target: string;
  abstract readonly headers: HeaderRecord;
  readonly arrived = Date.now();
  turns = 0;
  /** What has arrived of the body. */
  body: Buffer = EMPTY;
  protected readonly response: NodeResponse;
  protected readonly context: RequestContext;
  /** The charge for the body while it arrives, later for the response and the rest of the request. */
  protected charge: Charge | undefined = undefined;
  /** Set once the body begins to arrive. */
  private route: Route | undefined = undefined;
  /** Where the body comes from, until it is complete, too long or given up. */
  private arriving: Readable | undefined = undefined;
  /** Whether the body is a copy of the chunks that arrived. */
  private isCopy = false;
  /** The length of a response that is written, but not charged yet, in bytes. */
  private responseBytes: number | undefined = undefined;

  constructor(response: NodeResponse, context: RequestContext) {
    this.response = response;
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
  /** Whether there is a body, perhaps an empty one. */
  protected abstract readonly hasBody: boolean;
  /** The body. Tells a client that waits for it to send the body. */
  protected abstract openBody(): Readable;
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

  /** Whether nothing of the request has to be charged any more. node:http itself ends a request that takes too long. */
  isOver(): boolean {
    return this.isWritten;
  }

  /**
   * Serves the request: has its body read if the route wants it. Never throws: an exception would end the process.
   *
   * @param route default: it is found first
   */
  serve(route?: Route | StreamRoute): void {
    try {
      const found = route ?? this.context.find(this);
      if (found instanceof Promise) {
        // The client may have disconnected meanwhile.
        const serve = (known: Route | StreamRoute) => this.response.destroyed || this.serve(known);
        found.then(serve).catch((error) => this.fail(error));
      } else if ("handler" in found) {
        this.serveStream(found);
      } else {
        this.route = found;
        this.arriving = found.maxBytes === undefined || !this.hasBody ? undefined : this.openBody();
        if (this.arriving) this.receive(found, this.arriving);
        else void this.answer(found);
      }
    } catch (error) {
      this.fail(error);
    }
  }

  /** Has the request answered once its body is there. */
  private receive(route: Route, source: Readable): void {
    const { maxBytes = 0 } = route;
    const end = () => {
      if (!this.arriving) return;
      this.arriving = undefined;
      this.charge?.budget.release(this.charge);
      this.charge = undefined;
      void this.answer(route);
    };
    source.on("data", (chunk: Buffer) => {
      // What still arrives of a body that was too long or given up is discarded.
      if (!this.arriving) return;
      const isFirst = this.body.byteLength === 0;
      this.body = isFirst ? chunk : append(this.body, chunk, this.isCopy);
      this.isCopy = !isFirst;
      if (this.body.byteLength > maxBytes || route.isTooLong?.(this.body)) end();
      else if (this.charge) this.charge.budget.resize(this.charge, this.compactBody());
    });
    source.once("end", end);
    // An empty body may have ended while its route was being found.
    if (source.readableEnded) end();
    else this.context.turn.add(this);
  }

  /** Serves a streaming call by Connect's own handler, unless its client has too many open. */
  private serveStream({ handler, contextValues }: StreamRoute): void {
    const { lingering, limits, refuse, onError } = this.context;
    const { lifetimeMs = Infinity } = limits.streams;
    const evict = (reason: EvictionReason) => this.reset(EVICTION_CODE[reason]);
    // The deadline normally ends a stream. The timeout ends streams whose client does not read.
    const timeoutMs = lifetimeMs + Math.min(UNREAD_MS, lifetimeMs);
    const charge = lingering.charge(this.client, { evict }, { timeoutMs });
    if (!charge) {
      this.respond(refuse({ kind: "too-many-streams" }, this.headers, handler.method));
      return;
    }
    this.response.once("close", () => lingering.release(charge));
    const [req, res] = this.handOver();
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

  private get arrivalTimeoutMs(): number {
    const { arrivalTimeoutMs, openArrivalTimeoutMs } = this.context.limits;
    return this.route?.isOpen ? Math.min(openArrivalTimeoutMs, arrivalTimeoutMs) : arrivalTimeoutMs;
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

  private async answer(route: Route): Promise<void> {
    // A stream that the client has reset emits `end` as if its body were complete.
    if ("aborted" in this.response && this.response.aborted) return;
    try {
      const response = await route.serve(this);
      // The rest of the request may still arrive, but nobody needs the body.
      this.body = EMPTY;
      this.respond(response);
    } catch (error) {
      this.fail(error);
    } finally {
      route.call?.leave();
    }
  }

  /**
   * Charges the client for the response and the rest of the request: at once for a long response, because many of them
   * could come in one turn of the event loop; else if they outlive their turn.
   */
  protected chargeResponse(bytes: number): void {
    this.responseBytes = bytes;
    if (bytes > UNIT_BYTES && !this.isOver()) this.hold(bytes);
    else this.context.turn.add(this);
  }

  outliveTurn(): void {
    if (this.arriving) this.holdBody(this.arriving);
    else if (this.responseBytes !== undefined && !this.isOver()) this.hold(this.responseBytes);
  }

  private holdBody(source: Readable): void {
    // The connection may have closed while the request waited in a pipeline.
    if (source.destroyed) return;
    const budget = this.route?.isOpen ? this.context.lingering : this.context.bodies;
    const options = { bytes: this.compactBody(), timeoutMs: this.arrivalTimeoutMs };
    const charge = budget.charge(this.client, this, options);
    this.charge = charge;
    if (charge) source.once("close", () => budget.release(charge));
    else this.evict("over-budget");
  }

  /**
   * Copies a body that is a small part of a larger buffer, since what a slow body holds may be held for long.
   *
   * @returns how many bytes the body holds: a chunk keeps the whole ArrayBuffer alive that it is a view of
   */
  private compactBody(): number {
    const { byteLength, buffer } = this.body;
    if (!this.isCopy && byteLength < buffer.byteLength / 2) {
      this.body = copyOf(this.body, byteLength);
      this.isCopy = true;
    }
    return this.body.buffer.byteLength;
  }

  /** Charges the client for a response that it has not read, or, once that is sent, for the rest of the request. */
  private hold(bytes: number): void {
    this.responseBytes = undefined;
    if (this.charge) return;
    const { responses, lingering, limits } = this.context;
    // Once the response is written, the rest of the request is discarded: only its stream is held.
    this.charge = this.isWritten
      ? lingering.charge(this.client, this, { timeoutMs: limits.arrivalTimeoutMs })
      : responses.charge(this.client, this, { bytes, timeoutMs: limits.readTimeoutMs });
    // Deno over TLS passes even a short response to the kernel some turns later.
    if (!this.charge && !this.isWritten && bytes <= UNIT_BYTES)
      this.charge = lingering.charge(this.client, this, { timeoutMs: SHORT_WRITE_MS });
    if (!this.charge) {
      this.abandon("over-budget");
      return;
    }
    for (const event of ["finish", "end", "close"]) this.response.on(event, () => this.settle());
  }

  /** Releases what the client is charged once the request is finished. */
  protected settle(): void {
    if (this.charge && this.isOver()) this.charge.budget.release(this.charge);
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
    return new URL(this.target, `${this.isEncrypted ? "https" : "http"}://${authority}`).toString();
  }
}

/** Something that is charged only if it is not over when its turn of the event loop ends. */
interface Unfinished {
  /** How often it was added in this turn and the one before. */
  turns: number;
  /** Charges it, unless it is over. */
  outliveTurn(): void;
}

/**
 * The bodies and responses that began in this turn of the event loop or the one before. When the next turn ends, each that
 * is not over is charged. Nearly all are over by then, and have cost no more than a place in a list. A request is added once
 * for its body and once for its response: it is looked at when the later of the two is due.
 */
export class Turn {
  #added: Unfinished[] = [];
  #before: Unfinished[] = [];
  readonly #end = () => {
    const ended = this.#before;
    this.#before = this.#added;
    this.#added = [];
    if (this.#before.length > 0) setImmediate(this.#end);
    for (const each of ended) if (--each.turns === 0) each.outliveTurn();
  };

  add(unfinished: Unfinished): void {
    unfinished.turns++;
    if (this.#added.push(unfinished) === 1 && this.#before.length === 0) setImmediate(this.#end);
  }
}

/** What a client expects before it sends a body, and no server can meet (RFC 9110, 10.1.1). */
export const EXPECTATION_FAILED: Refusal = { kind: "expectation-failed" };

/** A host and a port, either of which may be empty (RFC 3986, 3.2.2 and 3.2.3). */
const HOST = /^(?:[\w.~!$&'()*+,;=%-]*|\[[\da-f:.]+\])(?::\d*)?$/i;

/** Consecutive requests mostly name the same host. */
let lastHost: string | undefined;

/** Whether a text is a host of which a URL can be built. Connect's adapter would throw on another. */
export function isHost(text: string): boolean {
  if (text === lastHost) return true;
  if (!HOST.test(text) || !URL.canParse(`http://${text}`)) return false;
  lastHost = text;
  return true;
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
