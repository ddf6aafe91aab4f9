import type { IncomingMessage, ServerResponse } from "node:http";
import { bodyBytes, type HeaderRecord, type HttpResponse } from "../exchange.ts";
import { discardBodyHttp1, endIfEarlyHttp1 } from "./drain.ts";
import { Exchange, type ExchangeContext, ignore } from "./node-exchange.ts";
import { plainAddress } from "./peers.ts";
import { trackHttp1Response } from "./pending-responses.ts";

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

  constructor(req: IncomingMessage, res: ServerResponse, context: ExchangeContext) {
    super(res, context);
    req.on("error", ignore);
    this.httpMethod = req.method ?? "";
    this.target = req.url ?? "/";
    this.headers = req.headers as HeaderRecord;
    this.#req = req;
    this.#res = res;
  }

  get connection(): object {
    return this.#req.socket;
  }

  /** node:http does not tell a response that is queued in a pipeline when its connection closes. */
  get isDisconnected(): boolean {
    return this.#res.destroyed || this.#res.closed || this.#req.socket.destroyed;
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
    return hasBody(this.#req) ? this.#req : undefined;
  }

  handOver(): [req: IncomingMessage, res: ServerResponse] {
    endIfEarlyHttp1(this.#req, this.#res);
    return [this.#req, this.#res];
  }

  write({ status, headers, body, trailers }: HttpResponse): void {
    const [req, res] = [this.#req, this.#res];
    if (this.isDisconnected) return;
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
    if ((res.socket === null || req.socket.writableLength > 0) && !res.writableFinished) {
      trackHttp1Response(req.socket, res, body.length, this.context.answers);
    }
    if (!req.readableEnded && hasBody(req)) discardBodyHttp1(req);
  }

  reset(): void {
    this.#res.destroy();
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
