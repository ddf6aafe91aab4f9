import type { IncomingMessage, ServerResponse } from "node:http";
import {
  Http2ServerRequest,
  Http2ServerResponse,
  type Http2Session,
  type IncomingHttpHeaders,
  type ServerHttp2Stream,
} from "node:http2";
import type { Readable } from "node:stream";
import { bodyBytes, type HeaderRecord, type HttpResponse, headerValue } from "../exchange.ts";
import { discardBodyHttp2 } from "./drain.ts";
import { Exchange, type ExchangeContext } from "./node-exchange.ts";
import { peerOfSession } from "./peers.ts";
import { trackHttp2Response } from "./pending-responses.ts";

const WAIT_FOR_TRAILERS = { waitForTrailers: true };
const END_STREAM = { endStream: true };

/** A request over HTTP/2, and the stream that its response goes to. */
export class Http2Exchange extends Exchange {
  readonly httpMethod: string;
  readonly target: string;
  readonly headers: HeaderRecord;
  readonly #stream: ServerHttp2Stream;
  /** A stream that has ended has no session any more. */
  readonly #session: Http2Session | undefined;

  constructor(stream: ServerHttp2Stream, headers: IncomingHttpHeaders, context: ExchangeContext) {
    super(stream, context);
    this.httpMethod = headers[":method"] ?? "";
    this.target = headers[":path"] ?? "/";
    this.headers = headers as HeaderRecord;
    this.#stream = stream;
    this.#session = stream.session;
  }

  get connection(): object {
    return this.#session ?? this.#stream;
  }

  get isDisconnected(): boolean {
    return this.#stream.destroyed || this.#stream.closed;
  }

  /** Such a stream emits `end` as if its body were complete. */
  protected get isReset(): boolean {
    return this.#stream.aborted;
  }

  /** What the client expects before it sends the body, in lower case: its value is case-insensitive (RFC 9110, 10.1.1). */
  get expectation(): string | undefined {
    return headerValue(this.headers, "expect")?.toLowerCase();
  }

  peerAddress(): string {
    return peerOfSession(this.#session);
  }

  url(): string {
    const authority = this.headers[":authority"] ?? this.headers["host"];
    return this.absoluteUrl(this.#stream.session?.encrypted === true, authority as string | undefined);
  }

  protected openBody(): Readable {
    if (this.expectation === "100-continue") this.#stream.additionalHeaders({ ":status": 100 });
    return this.#stream;
  }

  handOver(): [req: IncomingMessage, res: ServerResponse] {
    const stream = this.#stream;
    this.openBody();
    stream.once("finish", () => discardBodyHttp2(stream, this.context.discards));
    const req = new Http2ServerRequest(stream, this.headers as IncomingHttpHeaders, {}, []);
    const res = new Http2ServerResponse(stream);
    return [req as unknown as IncomingMessage, res as unknown as ServerResponse];
  }

  write({ status, headers, body, trailers }: HttpResponse): void {
    const stream = this.#stream;
    if (this.isDisconnected) return;
    headers[":status"] = status;
    // HTTP/2 has no `Connection` header. node:http2 drops it from responses of its request API but throws on streams.
    if (headers["connection"] !== undefined) headers["connection"] = undefined;
    if (!trailers && body.length === 0) {
      // A gRPC client accepts a status in the headers only if they end the stream.
      stream.respond(headers, END_STREAM);
    } else if (trailers) {
      stream.respond(headers, WAIT_FOR_TRAILERS);
      stream.once("wantTrailers", () => {
        try {
          stream.sendTrailers(trailers);
        } catch (error) {
          // HTTP/2 forbids one of the trailers. An exception that escapes from here would end the process.
          this.fail(error);
        }
      });
    } else {
      stream.respond(headers);
    }
    // A response to HEAD, or with a status without a body, has already ended.
    if (!stream.writableEnded) {
      if (body.length > 0) {
        const bytes = bodyBytes(body);
        stream.write(bytes, trackHttp2Response(stream, bytes.byteLength, this.context.answers));
      }
      stream.end();
    }
    if (!stream.readableEnded) discardBodyHttp2(stream, this.context.discards);
  }

  reset(code: number): void {
    this.#stream.close(code);
  }
}
