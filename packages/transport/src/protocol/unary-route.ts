import type { Message } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { type Compression, compressionNegotiate } from "@connectrpc/connect/protocol";
import { binarySerialization, jsonSerialization, type Serialization } from "../codec/serialization.ts";
import type { HeaderRecord, HttpRequest, HttpResponse, Route } from "../http-types.ts";
import type { Call } from "./call.ts";
import { connectProtocol } from "./connect.ts";
import { errorResponse } from "./error-responses.ts";
import { grpcProtocol } from "./grpc.ts";
import { type CallFormat, headerValue } from "./headers.ts";
import type { UnaryMethod } from "./methods.ts";
import { asConnectError, type Refusal, RefusalError, refusalOf } from "./refusals.ts";

type Body = HttpResponse["body"];

/** How a protocol of unary calls differs from the others. The route has what is known of the call. */
export interface UnaryProtocol {
  readonly timeoutHeader: string;
  readonly encodingHeader: string;
  readonly acceptHeader: string;
  parseTimeout(header: string | null, maxMs: number): { readonly timeoutMs?: number; readonly error?: ConnectError };
  /** How much longer than its message a body may be, in bytes. */
  readonly moreBytes: number;
  /** The route's `isTooLong`; undefined for a protocol whose bodies do not begin with their length. */
  readonly isTooLong?: (this: UnaryRoute, received: Buffer) => boolean;
  /** The trailers of a success. */
  readonly trailers: HeaderRecord;
  /** Whether a response names its compression even if it is too short to be compressed. */
  readonly alwaysNamesEncoding: boolean;
  /** Decodes the only message of a request. */
  decode(request: HttpRequest, route: UnaryRoute): Message | Promise<Message>;
  /** How many bytes are left free before the message of a response. */
  readonly headroom: number;
  /** Completes an encoded message, such as by its envelope. Default: nothing is added. */
  readonly seal?: (encoded: Buffer, route: UnaryRoute) => Body | Promise<Body>;
  /** The response with an encoded message. */
  respond(body: Body, route: UnaryRoute): HttpResponse | Promise<HttpResponse>;
  respondError(error: ConnectError, route: UnaryRoute): HttpResponse | Promise<HttpResponse>;
}

/** The route of an admitted unary call. */
export class UnaryRoute implements Route {
  readonly method: UnaryMethod;
  readonly format: CallFormat;
  readonly call: Call;
  readonly isOpen: boolean;
  readonly maxBytes: number;
  readonly isTooLong: Route["isTooLong"];
  /** The size limit of the request's message, in bytes. */
  readonly maxMessageBytes: number;
  readonly serialization: Serialization;
  /** How the request is compressed, and how the response may be; null: not at all. Set by `serve`. */
  requestCompression: Compression | null;
  responseCompression: Compression | null;
  private readonly protocol: UnaryProtocol;

  constructor(method: UnaryMethod, format: CallFormat, call: Call) {
    const { desc, options } = method;
    this.method = method;
    this.format = format;
    this.call = call;
    this.isOpen = call.isOpen;
    this.maxMessageBytes = options.readMaxBytes;
    if (format.isBinary) this.serialization = method.binary ??= binarySerialization(desc, options);
    else this.serialization = method.json ??= jsonSerialization(desc, options);
    this.requestCompression = null;
    this.responseCompression = null;
    this.protocol = format.protocol === "connect" ? connectProtocol : grpcProtocol;
    const bytes = this.maxMessageBytes + this.protocol.moreBytes;
    // In base64 four characters stand for three bytes.
    this.maxBytes = format.isText ? Math.ceil(bytes / 3) * 4 + 8 : bytes;
    this.isTooLong = format.isText ? undefined : this.protocol.isTooLong;
  }

  async serve(request: HttpRequest): Promise<HttpResponse> {
    const { call, method, protocol } = this;
    const header: HeaderRecord = { "content-type": this.format.responseType };
    const refused = call.enter(method, header, { ...protocol.trailers });
    if (refused) return errorResponse(this.format, refused);
    const { acceptHeader, encodingHeader, timeoutHeader } = protocol;
    const { acceptCompression, maxTimeoutMs } = method.options;
    const encoding = headerValue(request.headers, encodingHeader);
    const accepted = headerValue(request.headers, acceptHeader);
    const compression = compressionNegotiate(acceptCompression, encoding, accepted, acceptHeader);
    this.requestCompression = compression.request;
    this.responseCompression = compression.response;
    if (compression.response && protocol.alwaysNamesEncoding) header[encodingHeader] = compression.response.name;
    const timeout = protocol.parseTimeout(headerValue(request.headers, timeoutHeader), maxTimeoutMs);
    if (timeout.timeoutMs !== undefined) call.expireAfter(timeout.timeoutMs);
    let input: Message | Promise<Message>;
    try {
      const error = compression.error ?? timeout.error;
      if (error) throw error;
      input = protocol.decode(request, this);
      // Most messages are decoded, and most responses encoded, without a promise.
      if (input instanceof Promise) input = await input;
    } catch (reason) {
      return this.refuse(refusalOf(reason));
    }
    let message: Message;
    try {
      message = await call.invoke(input);
    } catch (reason) {
      return this.fail(reason, asConnectError(reason));
    }
    let body: Body | Promise<Body>;
    try {
      body = this.serialization.serialize(message, protocol.headroom);
      if (protocol.seal) body = protocol.seal(body as Buffer, this);
      if (body instanceof Promise) body = await body;
    } catch (reason) {
      return this.refuse({ kind: "unencodable", error: ConnectError.from(reason, Code.Internal) });
    }
    return protocol.respond(body, this);
  }

  /** Decodes the bytes of the request's message. @throws RefusalError */
  parse(bytes: Buffer): Message {
    const { format, serialization, maxMessageBytes } = this;
    const plain = bytes.byteLength <= maxMessageBytes && serialization.parsePlain(bytes);
    if (plain) return plain;
    try {
      return serialization.parse(bytes);
    } catch (reason) {
      const error = asConnectError(reason);
      if (error.code === Code.ResourceExhausted)
        throw new RefusalError({ kind: "message-too-large", maxBytes: maxMessageBytes, error });
      throw new RefusalError({ kind: "malformed-message", isBinary: format.isBinary, error });
    }
  }

  private refuse(refusal: Refusal): HttpResponse | Promise<HttpResponse> {
    const refused = this.call.refuse(refusal);
    return refused.shared ? errorResponse(this.format, refused) : this.fail(refused.error, refused.error);
  }

  private fail(reason: unknown, error: ConnectError): HttpResponse | Promise<HttpResponse> {
    this.call.fail(reason);
    return this.protocol.respondError(error, this);
  }
}
