import type { IncomingMessage, ServerResponse } from "node:http";
import { bodyBytes, type HeaderRecord, type HttpResponse } from "../exchange.ts";
import type { Refusal } from "../protocol/refusals.ts";
import { discardBodyHttp1 } from "./drain.ts";
import { Http1Connection } from "./http1-connection.ts";
import { Exchange, type ExchangeContext, ignore } from "./node-exchange.ts";
import { plainAddress } from "./peers.ts";

/** Whether node:http writes headers and a string body in one piece. Deno's does not. */
const MERGES_TEXT_WITH_HEADER = !("Deno" in globalThis);

/**
 * The longest body that is converted to a string, in bytes. For longer ones the conversion costs more than a second
 * write.
 */
const MAX_MERGED_BYTES = 4096;

/** A request over HTTP/1.1, and its response. */
export class Http1Exchange extends Exchange {
  readonly httpMethod: string;
  readonly target: string;
  readonly headers: HeaderRecord;
  readonly #req: IncomingMessage;
  readonly #res: ServerResponse;
  readonly #connection: Http1Connection;
  /** Whether the client waits to be asked for the body. */
  awaitsContinue = false;

  constructor(req: IncomingMessage, res: ServerResponse, context: ExchangeContext) {
    super(res, context);
    req.on("error", ignore);
    this.httpMethod = req.method ?? "";
    this.target = req.url ?? "/";
    this.headers = req.headers as HeaderRecord;
    this.#req = req;
    this.#res = res;
    this.#connection = Http1Connection.of(req.socket);
  }

  /**
   * node:http does not tell a response that is queued in a pipeline when its connection closes. One whose request broke
   * off is answered already.
   */
  get isDisconnected(): boolean {
    return this.#res.destroyed || this.#res.closed || this.#res.writableEnded || this.#req.socket.destroyed;
  }

  protected get isReset(): boolean {
    return false;
  }

  peerAddress(): string {
    return plainAddress(this.#req.socket.remoteAddress);
  }

  url(): string {
    return this.absoluteUrl("encrypted" in this.#req.socket, this.#req.headers.host);
  }

  protected openBody(): IncomingMessage | undefined {
    if (!hasBody(this.#req)) return undefined;
    if (this.awaitsContinue) this.#res.writeContinue();
    this.awaitsContinue = false;
    return this.#req;
  }

  handOver(): [req: IncomingMessage, res: ServerResponse] {
    const [req, res, connection] = [this.#req, this.#res, this.#connection];
    this.openBody();
    connection.keeps(res);
    const { writeHead } = res;
    res.writeHead = ((...args: never[]) => {
      // Connect's adapter then stops reading the request, and the next one would wait behind the unread rest.
      if (!req.complete) connection.closeAfter(res);
      return Reflect.apply(writeHead, res, args);
    }) as never;
    return [req, res];
  }

  write({ status, headers, body, trailers }: HttpResponse): void {
    const [req, res] = [this.#req, this.#res];
    if (this.isDisconnected) return;
    // Whether the body still comes is up to the client (RFC 9110, 10.1.1).
    if (this.awaitsContinue && hasBody(req)) this.#connection.closeAfter(res);
    this.#connection.writes(res);
    res.writeHead(status, headers);
    if (trailers) {
      res.write(bodyBytes(body));
      res.addTrailers(trailers as { [name: string]: string });
      res.end();
    } else if (body.length <= MAX_MERGED_BYTES && MERGES_TEXT_WITH_HEADER) {
      // node:http sends a string in one write with the headers. In latin1 every byte is one character.
      res.end(latin1Of(body), "latin1");
    } else {
      res.end(bodyBytes(body));
    }
    // The kernel takes most responses at once. A response that is queued in a pipeline has no socket yet.
    if ((res.socket === null || req.socket.writableLength > 0) && !res.writableFinished) this.charge(body.length);
    if (!req.readableEnded && hasBody(req)) discardBodyHttp1(req);
  }

  override refuse(refusal: Refusal): void {
    this.#connection.closeAfter(this.#res);
    super.refuse(refusal);
  }

  reset(): void {
    this.#res.destroy();
  }

  protected get isWritten(): boolean {
    // node:http does not tell a response that is queued in a pipeline when its connection closes.
    return this.#res.writableFinished || this.#req.socket.destroyed;
  }

  /** node:http itself ends a request that takes too long. */
  protected get isFinished(): boolean {
    return this.isWritten;
  }

  evict(): void {
    this.#req.socket.destroy();
  }
}

/** Whether a request has a body (RFC 9112, 6.3). */
function hasBody({ headers }: IncomingMessage): boolean {
  return headers["transfer-encoding"] !== undefined || Number(headers["content-length"] ?? 0) !== 0;
}

/** A string whose latin1 encoding is the body. */
function latin1Of(body: Uint8Array | string): string {
  // An ASCII string has as many bytes as characters.
  if (typeof body === "string" && Buffer.byteLength(body) === body.length) return body;
  const { buffer, byteOffset, byteLength } = bodyBytes(body);
  return Buffer.from(buffer, byteOffset, byteLength).toString("latin1");
}
