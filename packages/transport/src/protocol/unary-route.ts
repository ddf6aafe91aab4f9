import type { Message } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { type Compression, compressionNegotiate } from "@connectrpc/connect/protocol";
import { binarySerialization, jsonSerialization, type Serialization } from "../codec/serialization.ts";
import type { HttpRequest, HttpResponse, Route } from "../http-types.ts";
import type { Call } from "./call.ts";
import { connectProtocol } from "./connect.ts";
import { grpcProtocol } from "./grpc.ts";
import { type CallFormat, headerValue } from "./headers.ts";
import type { UnaryMethod } from "./methods.ts";
import { asConnectError, type Refusal, RefusalError, refusalOf } from "./refusals.ts";
import type { Body, UnaryExchange, UnaryProtocol } from "./unary-protocol.ts";

export class UnaryRoute implements Route, UnaryExchange {
  readonly method: UnaryMethod;
  readonly format: CallFormat;
  readonly call: Call;
  readonly maxBytes: number;
  readonly maxMessageBytes: number;
  requestCompression: Compression | null = null;
  responseCompression: Compression | null = null;
  private readonly serialization: Serialization;
  private readonly protocol: UnaryProtocol;

  constructor(method: UnaryMethod, format: CallFormat, call: Call) {
    const { desc, options } = method;
    this.method = method;
    this.format = format;
    this.call = call;
    this.maxMessageBytes = options.readMaxBytes;
    if (format.isBinary) this.serialization = method.binary ??= binarySerialization(desc, options);
    else this.serialization = method.json ??= jsonSerialization(desc, options);
    this.protocol = format.protocol === "connect" ? connectProtocol : grpcProtocol;
    const bytes = this.maxMessageBytes + this.protocol.moreBytes;
    // In base64, four characters represent three bytes.
    this.maxBytes = format.isText ? Math.ceil(bytes / 3) * 4 + 8 : bytes;
  }

  async serve(request: HttpRequest): Promise<HttpResponse> {
    const { call, method, protocol, format } = this;
    call.enter(method, { "content-type": format.responseType }, { ...protocol.trailers });
    const { acceptHeader, encodingHeader, timeoutHeader } = protocol;
    const { acceptCompression, maxTimeoutMs } = method.options;
    const encoding = headerValue(request.headers, encodingHeader);
    const accepted = headerValue(request.headers, acceptHeader);
    const compression = compressionNegotiate(acceptCompression, encoding, accepted, acceptHeader);
    this.requestCompression = compression.request;
    this.responseCompression = compression.response;
    if (compression.response && protocol.alwaysNamesEncoding)
      call.responseHeader.set(encodingHeader, compression.response.name);
    const timeout = protocol.parseTimeout(headerValue(request.headers, timeoutHeader), maxTimeoutMs);
    if (timeout.timeoutMs !== undefined) call.expireAfter(timeout.timeoutMs);
    let input: Message | Promise<Message>;
    try {
      const error = compression.error ?? timeout.error;
      if (error) throw error;
      input = protocol.decode(request, this);
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

  parse(bytes: Buffer): Message {
    try {
      return this.serialization.parse(bytes);
    } catch (reason) {
      const error = asConnectError(reason);
      throw new RefusalError({ kind: "malformed-message", isBinary: this.format.isBinary, error });
    }
  }

  private refuse(refusal: Refusal): HttpResponse | Promise<HttpResponse> {
    const { error } = this.call.refuse(refusal);
    return this.fail(error, error);
  }

  private fail(reason: unknown, error: ConnectError): HttpResponse | Promise<HttpResponse> {
    this.call.fail(reason);
    return this.protocol.respondError(error, this);
  }
}
