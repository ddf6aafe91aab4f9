import type { IncomingMessage, ServerResponse } from "node:http";
import {
  constants,
  Http2ServerRequest,
  Http2ServerResponse,
  type IncomingHttpHeaders,
  type ServerHttp2Stream,
} from "node:http2";
import type { Readable } from "node:stream";
import { setTimeout } from "node:timers";
import type { HeaderRecord, HttpResponse, PausedConnection } from "../http-types.ts";
import { HEADER_TOO_LARGE, MAX_HEADER_BYTES } from "../limits.ts";
import { afterReading } from "../protocol/after-reading.ts";
import { discard } from "./body.ts";
import type { EvictionReason } from "./client-budget.ts";
import { type Http2Connection, STREAMS_END_EARLY } from "./http2-connection.ts";
import {
  EVICTION_CODE,
  EXPECTATION_FAILED,
  ignore,
  isHost,
  type RequestContext,
  ServerRequest,
} from "./server-request.ts";

const WAIT_FOR_TRAILERS = { waitForTrailers: true };
const END_STREAM = { endStream: true };

/** The maximum time for the last write of a closing connection, in milliseconds. */
const LAST_WRITE_MS = 5000;

interface Http2Context {
  readonly context: RequestContext;
  readonly connection: Http2Connection;
}

export function http2Listener(of: Http2Context) {
  return (stream: ServerHttp2Stream, headers: IncomingHttpHeaders, _flags: number, rawHeaders: string[]) => {
    if (Object.keys(headers).length < rawHeaders.length / 2) Object.assign(headers, joinFields(rawHeaders));
    if (!isHost(headers[":authority"] ?? headers.host ?? "")) headers[":authority"] = "localhost";
    const request = new Http2Request(stream, headers, of);
    // If one packet opens and resets a stream, the stream is closed before the event `stream`.
    if (request.isDisconnected) return;
    // node:http2 limits the headers only after the client has acknowledged the settings, so check the size of the
    // headers here.
    let bytes = 0;
    for (const text of rawHeaders) bytes += text.length;
    const { expect: expectation = CONTINUE } = headers;
    if (bytes > MAX_HEADER_BYTES) request.refuse(HEADER_TOO_LARGE);
    else if (String(expectation).toLowerCase() !== CONTINUE) request.refuse(EXPECTATION_FAILED);
    else request.serve();
  };
}

/**
 * Joins repeated fields (RFC 9110, 5.3), as node:http does for HTTP/1.1. For some names, such as `Authorization` and
 * `If-Match`, node:http2 keeps only one field and drops the repeated fields.
 */
function joinFields(rawHeaders: readonly string[]): HeaderRecord {
  const joined: HeaderRecord = Object.create(null);
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const [name, value] = [rawHeaders[i] as string, rawHeaders[i + 1]];
    const before = joined[name];
    joined[name] = before === undefined ? value : `${before}${name === "cookie" ? ";" : ","} ${value}`;
  }
  return joined;
}

/** The only supported value of `Expect`; case-insensitive (RFC 9110, 10.1.1). */
const CONTINUE = "100-continue";

class Http2Request extends ServerRequest<ServerHttp2Stream> {
  readonly httpMethod: string;
  readonly target: string;
  readonly headers: HeaderRecord;
  protected readonly hasBody = true;
  private readonly connection: Http2Connection;
  /**
   * Whether the response body is written. Also true if the stream is reset before the kernel has taken all bytes of the
   * body.
   */
  private isBodyWritten = true;
  /**
   * The number of bytes that the connection had written when the response body was written. Set only if
   * `STREAMS_END_EARLY`.
   */
  private writtenBytes = 0;
  private isResetting = false;

  constructor(stream: ServerHttp2Stream, headers: IncomingHttpHeaders, { context, connection }: Http2Context) {
    super(stream, context);
    this.httpMethod = headers[":method"] ?? "";
    this.target = headers[":path"] ?? "/";
    this.headers = headers as HeaderRecord;
    this.connection = connection;
  }

  get isDisconnected(): boolean {
    return this.isResetting || this.response.destroyed || this.response.closed;
  }

  get unreadBytes(): number {
    return this.response.readableLength;
  }

  peerAddress(): string {
    return this.connection.peerAddress;
  }

  pauseConnections(caller: string, isFirst: boolean): PausedConnection[] {
    return this.connection.pause(caller, isFirst);
  }

  protected openBody(): Readable {
    if (this.headers["expect"] !== undefined) this.response.additionalHeaders({ ":status": 100 });
    return this.response;
  }

  protected handOver(): [req: IncomingMessage, res: ServerResponse] {
    const { response: stream } = this;
    this.openBody();
    stream.once("finish", () => {
      if (!stream.readableEnded) discardRest(stream);
      this.chargeResponse(0);
    });
    const req = new Http2ServerRequest(stream, this.headers as IncomingHttpHeaders, {}, []);
    const res = new Http2ServerResponse(stream);
    // An `error` event without a listener would end the process.
    for (const each of [req, res]) each.on("error", ignore);
    return [req as unknown as IncomingMessage, res as unknown as ServerResponse];
  }

  protected respond({ status, headers, body, trailers }: HttpResponse): void {
    const { response: stream } = this;
    if (this.isDisconnected) return;
    headers[":status"] = status;
    // HTTP/2 has no `Connection` header. The compatibility API of node:http2 drops this header, but `stream.respond`
    // throws an error for it.
    if (headers["connection"] !== undefined) headers["connection"] = undefined;
    if (!trailers && body.length === 0) {
      // A gRPC client accepts a status in the headers only if the headers end the stream.
      stream.respond(headers, END_STREAM);
    } else if (trailers) {
      stream.respond(headers, WAIT_FOR_TRAILERS);
      stream.once("wantTrailers", () => {
        try {
          stream.sendTrailers(trailers);
        } catch (error) {
          // node:http2 throws for a trailer that HTTP/2 forbids. An exception in a listener would end the process.
          this.fail(error);
        }
      });
    } else {
      stream.respond(headers);
    }
    // node:http2 has already ended the response if the method is HEAD, or if the status allows no body.
    this.isBodyWritten = stream.writableEnded || body.length === 0;
    this.chargeResponse(body.length);
    if (this.isDisconnected) return;
    if (!this.isBodyWritten) {
      stream.write(body, () => {
        this.isBodyWritten = true;
        if (stream.destroyed) skipError(stream);
        if (STREAMS_END_EARLY) this.writtenBytes = this.connection.bytes.written;
        if (this.charge) this.settle();
      });
    }
    if (!stream.writableEnded) stream.end();
    if (!stream.readableEnded) discardRest(stream);
  }

  protected reset(code: number): void {
    this.isResetting = true;
    afterReading(() => this.response.close(code));
  }

  protected get isWritten(): boolean {
    if (!STREAMS_END_EARLY || !this.isBodyWritten) return this.isBodyWritten;
    const { written, taken } = this.connection.bytes;
    return taken >= Math.min(this.writtenBytes, written) - MAX_UNSENT_BYTES;
  }

  override isOver(): boolean {
    const { readableEnded, destroyed } = this.response;
    return this.isWritten && (readableEnded || destroyed);
  }

  protected abandon(reason: EvictionReason): void {
    const [stream, connection] = [this.response, this.connection];
    // If the stream is destroyed, its data waits for the connection, so the connection must end. If the stream is open,
    // its data waits for the flow-control window of the client, so a reset of the stream is enough.
    if (stream.destroyed) {
      afterReading(() => connection.end());
    } else if (this.isWritten) {
      this.reset(constants.NGHTTP2_NO_ERROR);
    } else {
      this.reset(EVICTION_CODE[reason]);
      // Close the session. The connection then accepts no new streams, but open streams may finish.
      afterReading(() => connection.session.close());
      endLaterIfStuck(connection, new WeakRef(stream));
    }
  }
}

/**
 * If a connection has at most this number of unsent bytes, the client is not charged for these bytes. Used only on
 * Deno. The number suffices for a short response on each stream. Over TLS, Deno passes a short response to the kernel
 * only some turns of the event loop after the write. If these bytes were charged, a burst of short responses on many
 * connections would exceed the budget of the client.
 */
const MAX_UNSENT_BYTES = 64 * 1024;

const DESTROYED = new Error("The stream is destroyed.");

/**
 * Sets the error of a destroyed stream before the last write of the stream ends. If the stream had no error, Node would
 * create an error with a stack trace, although no code receives this error. Most responses without trailers end with a
 * destroyed stream. Without the stack trace, their calls need 11 to 15 % less CPU.
 */
function skipError(stream: ServerHttp2Stream): void {
  Object.assign((stream as unknown as { readonly _writableState: object })._writableState, { errored: DESTROYED });
}

/**
 * Ends a closing connection that does not close in time. node:http2 itself would wait until the client has read all
 * bytes.
 *
 * @param stream the stream with unsent bytes. A weak reference, so that the timer does not keep the bytes in memory
 */
function endLaterIfStuck(connection: Http2Connection, stream: WeakRef<ServerHttp2Stream>): void {
  const endStuck = () => {
    if (connection.session.destroyed || stream.deref()?.destroyed === false) connection.end();
  };
  setTimeout(endStuck, LAST_WRITE_MS).unref();
}

/**
 * Discards the rest of an answered request. If the rest stayed unread, node:http2 would never destroy the stream or
 * return its flow-control window. If the stream were reset immediately, some clients would lose the response. The
 * stream is reset if more than `MAX_DISCARDED_BYTES` arrive, or if its charge to the budget `streams` times out.
 */
function discardRest(stream: ServerHttp2Stream): void {
  discard(stream, () => afterReading(() => stream.close(constants.NGHTTP2_NO_ERROR)));
}
