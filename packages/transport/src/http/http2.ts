import type { IncomingMessage, ServerResponse } from "node:http";
import {
  constants,
  Http2ServerRequest,
  Http2ServerResponse,
  type Http2Session,
  type IncomingHttpHeaders,
  type ServerHttp2Stream,
} from "node:http2";
import type { Readable } from "node:stream";
import { setTimeout } from "node:timers";
import { bodyBytes, type HeaderRecord, type HttpResponse, headerValue } from "../exchange.ts";
import { discard } from "./body.ts";
import type { EvictionReason } from "./client-budget.ts";
import { bytesOf, endConnection, peerOfSession, STREAMS_END_EARLY } from "./http2-sessions.ts";
import { EVICTION_CODE, type RequestContext, ServerRequest } from "./server-request.ts";

const WAIT_FOR_TRAILERS = { waitForTrailers: true };
const END_STREAM = { endStream: true };

/** How long a closing connection may take for its last write, in milliseconds. */
const LAST_WRITE_MS = 5000;

/** A request over HTTP/2, and the stream that its response goes to. */
export class Http2Request extends ServerRequest {
  readonly httpMethod: string;
  readonly target: string;
  readonly headers: HeaderRecord;
  readonly #stream: ServerHttp2Stream;
  /** A stream that has ended has no session any more. */
  readonly #session: Http2Session | undefined;
  /** Whether the body of the response is written. Bytes of a stream that was reset may still wait for the kernel. */
  #isWritten = true;
  /** How many bytes the connection had written by then, where that is not when the kernel has taken them. */
  #writtenBytes = 0;

  constructor(stream: ServerHttp2Stream, headers: IncomingHttpHeaders, context: RequestContext) {
    super(stream, context);
    this.httpMethod = headers[":method"] ?? "";
    this.target = headers[":path"] ?? "/";
    this.headers = headers as HeaderRecord;
    this.#stream = stream;
    this.#session = stream.session;
  }

  get isDisconnected(): boolean {
    return this.#stream.destroyed || this.#stream.closed;
  }

  /** Such a stream emits `end` as if its body were complete. */
  protected override get isReset(): boolean {
    return this.#stream.aborted;
  }

  /** What the client expects before it sends the body, in lower case: its value is case-insensitive (RFC 9110, 10.1.1). */
  get expectation(): string | undefined {
    return headerValue(this.headers, "expect")?.toLowerCase();
  }

  peerAddress(): string {
    return peerOfSession(this.#session);
  }

  protected get isEncrypted(): boolean {
    return this.#stream.session?.encrypted === true;
  }

  protected openBody(): Readable {
    if (this.expectation === "100-continue") this.#stream.additionalHeaders({ ":status": 100 });
    return this.#stream;
  }

  protected handOver(): [req: IncomingMessage, res: ServerResponse] {
    const stream = this.#stream;
    this.openBody();
    stream.once("finish", () => {
      discardRest(stream);
      this.charge(0);
    });
    const req = new Http2ServerRequest(stream, this.headers as IncomingHttpHeaders, {}, []);
    const res = new Http2ServerResponse(stream);
    return [req as unknown as IncomingMessage, res as unknown as ServerResponse];
  }

  protected respond({ status, headers, body, trailers }: HttpResponse): void {
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
    this.#isWritten = stream.writableEnded || body.length === 0;
    this.charge(body.length);
    if (this.isDisconnected) return;
    if (!this.#isWritten) {
      stream.write(bodyBytes(body), () => {
        this.#isWritten = true;
        if (STREAMS_END_EARLY && this.#session) this.#writtenBytes = bytesOf(this.#session).written;
        this.settle();
      });
    }
    if (!stream.writableEnded) stream.end();
    discardRest(stream);
  }

  protected reset(code: number): void {
    this.#stream.close(code);
  }

  protected get isWritten(): boolean {
    if (!STREAMS_END_EARLY || !this.#isWritten || !this.#session) return this.#isWritten;
    const { written, taken } = bytesOf(this.#session);
    return taken >= Math.min(this.#writtenBytes, written);
  }

  override isOver(): boolean {
    const { readableEnded, destroyed } = this.#stream;
    return this.isWritten && (readableEnded || destroyed);
  }

  protected abandon(reason: EvictionReason): void {
    const [stream, session] = [this.#stream, this.#session];
    // A stream that is not destroyed waits for the client's flow-control window. A destroyed one waits for the
    // connection.
    if (stream.destroyed) {
      if (session) endConnection(session);
    } else if (this.isWritten) {
      stream.close(constants.NGHTTP2_NO_ERROR);
    } else {
      stream.close(EVICTION_CODE[reason]);
      // The connection accepts no new streams. The open ones may finish.
      session?.close();
      if (session) endLaterIfStuck(session, new WeakRef(stream));
    }
  }
}

/**
 * Ends a connection that does not close by itself: a session without streams closes, but first waits for unsent bytes.
 * So does a closed stream.
 *
 * @param stream held weakly: its session holds it until it is destroyed, and after that its unsent bytes are to be freed
 */
function endLaterIfStuck(session: Http2Session, stream: WeakRef<ServerHttp2Stream>): void {
  const endStuck = () => {
    if (session.destroyed || stream.deref()?.destroyed === false) endConnection(session);
  };
  setTimeout(endStuck, LAST_WRITE_MS).unref();
}

/**
 * Reads and discards the rest of a request that is already answered. A paused stream would never be destroyed, and its
 * bytes would stay counted against the connection's flow-control window. Resetting the stream at once would keep some
 * clients from seeing the response, so it is reset only when too many bytes arrive; the client is charged for it, and it is
 * ended when it takes too long.
 */
function discardRest(stream: ServerHttp2Stream): void {
  if (!stream.readableEnded) discard(stream, () => stream.close(constants.NGHTTP2_NO_ERROR));
}
