import type { Message } from "@bufbuild/protobuf";
import type { ConnectError } from "@connectrpc/connect";
import type { Compression } from "@connectrpc/connect/protocol";
import type { HeaderRecord, HttpRequest, HttpResponse } from "../http-types.ts";
import type { Call } from "./call.ts";
import type { CallFormat } from "./headers.ts";
import type { UnaryMethod } from "./methods.ts";

export type Body = HttpResponse["body"];

/** The data that a protocol needs to serve a unary call. */
export interface UnaryExchange {
  readonly method: UnaryMethod;
  readonly format: CallFormat;
  readonly call: Call;
  /** The maximum size of the body, in bytes. */
  readonly maxBytes: number;
  readonly maxMessageBytes: number;
  readonly requestCompression: Compression | null;
  /** A compression that the client accepts; null if the response must not be compressed. */
  responseCompression: Compression | null;
  /** Decodes the request message. @throws RefusalError */
  parse(bytes: Buffer): Message;
}

export interface UnaryProtocol {
  readonly timeoutHeader: string;
  readonly encodingHeader: string;
  readonly acceptHeader: string;
  parseTimeout(header: string | null, maxMs: number): { readonly timeoutMs?: number; readonly error?: ConnectError };
  /** The maximum number of bytes that a body may have in addition to its message. */
  readonly moreBytes: number;
  readonly trailers: HeaderRecord;
  /** Whether the response headers name the negotiated compression even if the message is too short to be compressed. */
  readonly alwaysNamesEncoding: boolean;
  decode(request: HttpRequest, exchange: UnaryExchange): Message | Promise<Message>;
  /** The number of free bytes that `seal` needs before the message. */
  readonly headroom: number;
  /**
   * Completes an encoded message. For example, gRPC writes the prefix of the envelope. If omitted, the encoded message
   * is the body.
   */
  readonly seal?: (encoded: Buffer, exchange: UnaryExchange) => Body | Promise<Body>;
  respond(body: Body, exchange: UnaryExchange): HttpResponse | Promise<HttpResponse>;
  respondError(error: ConnectError, exchange: UnaryExchange): HttpResponse | Promise<HttpResponse>;
}
