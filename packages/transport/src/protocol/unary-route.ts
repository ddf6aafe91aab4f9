import type { Message } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { type Compression, compressionNegotiate } from "@connectrpc/connect/protocol";
import { type HeaderRecord, type HttpRequest, type HttpResponse, headerValue, type Route } from "../exchange.ts";
import type { Call } from "./call.ts";
import { connectProtocol } from "./connect.ts";
import type { CallFormat } from "./content-types.ts";
import { errorResponse } from "./error-responses.ts";
import { grpcProtocol } from "./grpc.ts";
import type { UnaryMethod } from "./methods.ts";
import { asConnectError, RequestRefused, refusalOf } from "./refusals.ts";

type Body = HttpResponse["body"];

/** What differs between the protocols of unary calls. What they need of a call is in its route. */
export interface UnaryProtocol {
  readonly timeoutHeader: string;
  readonly encodingHeader: string;
  readonly acceptHeader: string;
  parseTimeout(header: string | null, maxMs: number): { readonly timeoutMs?: number; readonly error?: ConnectError };
  isTooLong(received: Uint8Array, route: UnaryRoute): boolean;
  /** The initial headers and trailers of the response. */
  begin(route: UnaryRoute): readonly [header: HeaderRecord, trailer: HeaderRecord];
  /** Decodes the only message of a request. */
  decode(request: HttpRequest, route: UnaryRoute): Message | Promise<Message>;
  encode(message: Message, route: UnaryRoute): Body | Promise<Body>;
  /** The response with an encoded message. */
  respond(body: Body, route: UnaryRoute): HttpResponse | Promise<HttpResponse>;
  respondError(error: ConnectError, route: UnaryRoute): HttpResponse | Promise<HttpResponse>;
}

/** The route of an admitted unary call. */
export class UnaryRoute implements Route {
  readonly method: UnaryMethod;
  readonly format: CallFormat;
  readonly call: Call;
  /** How the request is compressed, and how the response may be; null: not at all. Set by `serve`. */
  requestCompression: Compression | null = null;
  responseCompression: Compression | null = null;
  readonly #protocol: UnaryProtocol;

  constructor(method: UnaryMethod, format: CallFormat, call: Call) {
    this.method = method;
    this.format = format;
    this.call = call;
    this.#protocol = format.protocol === "connect" ? connectProtocol : grpcProtocol;
  }

  get isOpen(): boolean {
    return this.call.isOpen;
  }

  /** The size limit of the request's message, in bytes. */
  get limit(): number {
    return this.method.options.readMaxBytes;
  }

  get serialization() {
    return this.format.isBinary ? this.method.binary : this.method.json;
  }

  isTooLong(received: Uint8Array): boolean {
    return this.#protocol.isTooLong(received, this);
  }

  end(): void {
    this.call.release();
  }

  async serve(request: HttpRequest): Promise<HttpResponse> {
    const refused = this.call.begin();
    if (refused) return errorResponse(this.format, refused);
    let input: Message | Promise<Message>;
    try {
      input = this.#begin(request);
      // Most messages are decoded, and most responses encoded, without a promise.
      if (input instanceof Promise) input = await input;
    } catch (reason) {
      const refused = this.call.refuse(refusalOf(reason));
      return refused.shared ? errorResponse(this.format, refused) : this.#fail(refused.error, refused.error);
    }
    let message: Message;
    try {
      message = await this.call.invoke(input);
    } catch (reason) {
      return this.#fail(reason, asConnectError(reason));
    }
    let body: Body | Promise<Body>;
    try {
      body = this.#protocol.encode(message, this);
      if (body instanceof Promise) body = await body;
    } catch (reason) {
      const error = ConnectError.from(reason, Code.Internal);
      return this.#fail(error, error);
    }
    this.call.end();
    return this.#protocol.respond(body, this);
  }

  /** Starts the call as the headers of its request ask, and decodes its message. */
  #begin(request: HttpRequest): Message | Promise<Message> {
    const { headers } = request;
    const { acceptCompression, maxTimeoutMs } = this.method.options;
    const { timeoutHeader, encodingHeader, acceptHeader } = this.#protocol;
    const timeout = this.#protocol.parseTimeout(headerValue(headers, timeoutHeader), maxTimeoutMs);
    const [requested, accepted] = [headerValue(headers, encodingHeader), headerValue(headers, acceptHeader)];
    const compression = compressionNegotiate(acceptCompression, requested, accepted, acceptHeader);
    this.requestCompression = compression.request;
    this.responseCompression = compression.response;
    const [responseHeader, responseTrailer] = this.#protocol.begin(this);
    this.call.start({ method: this.method, timeoutMs: timeout.timeoutMs, responseHeader, responseTrailer });
    const error = compression.error ?? timeout.error;
    if (error) throw error;
    return this.#protocol.decode(request, this);
  }

  /** Decodes the bytes of the request's message. @throws RequestRefused */
  parse(bytes: Uint8Array): Message {
    const { format, serialization, limit } = this;
    try {
      return serialization.parse(bytes);
    } catch (reason) {
      const error = asConnectError(reason);
      if (error.code === Code.ResourceExhausted) throw new RequestRefused({ kind: "message-too-large", limit, error });
      throw new RequestRefused({ kind: "malformed-message", isBinary: format.isBinary, error });
    }
  }

  #fail(reason: unknown, error: ConnectError): HttpResponse | Promise<HttpResponse> {
    this.call.end(reason);
    return this.#protocol.respondError(error, this);
  }
}
