import type { DescMethodUnary, Message } from "@bufbuild/protobuf";
import { type ConnectError, type ContextValues, createContextValues } from "@connectrpc/connect";
import type { Compression } from "@connectrpc/connect/protocol";
import { bodyBytes, type HeaderRecord, type HttpRequest, type HttpResponse, type Route } from "./http-types.ts";
import type { Call } from "./protocol/call.ts";
import { compress, inflate } from "./protocol/compression.ts";
import { headerValue, RecordHeaders } from "./protocol/headers.ts";
import type { UnaryMethod } from "./protocol/methods.ts";
import { asConnectError, messageTooLarge, type Refusal, RefusalError, type Refused } from "./protocol/refusals.ts";

/** An HTTP endpoint at a path, beside the RPCs. */
export interface Endpoint {
  /** The protocol name of its calls, such as `rest`; undefined when none of its methods is a call. */
  readonly protocolName?: string;
  /** The handler of each HTTP method. Other methods are refused. */
  readonly methods: ReadonlyMap<string, EndpointMethod>;
}

/** The handler of one HTTP method of an endpoint. */
export interface EndpointMethod {
  /**
   * The RPC that a request is translated to. The request is authorized and limited like a call of it. Undefined: the
   * request is not a call, and needs no authorization.
   */
  readonly rpc?: DescMethodUnary;
  /**
   * The maximum body size, in bytes, before and after decompression. Longer bodies are refused. Undefined: the body is
   * not read.
   */
  readonly maxBytes?: number;
  /** Responses of at least so many bytes are compressed, if the client accepts it. Default: none is. */
  readonly compressMinBytes?: number;
  /**
   * Serves a request, whose body is decompressed. The transport adds the content length. May throw RefusalError. Any
   * other error is refused as `endpoint`, unless the call failed with it.
   */
  serve(request: HttpRequest, call: EndpointCall): Promise<HttpResponse>;
}

/** The call of the endpoint's RPC. Call its methods on the object. */
export interface EndpointCall {
  /**
   * Passes a message through the interceptors to the RPC. May be called again once the call before has ended. Rejects
   * with the error that the interceptors produce, or with a TypeError when the RPC is not served.
   */
  invoke(message: Message): Promise<Message>;
  /** The headers of the RPC's response, once it is there. `recordOf` gives a record that may be changed and sent. */
  readonly responseHeader: Headers;
  /** What authorization and the interceptors stored for the call. */
  readonly contextValues: ContextValues;
}

/** An endpoint that only reads: GET, and HEAD, which gets the same without a body. */
export function readEndpoint(serve: (request: HttpRequest) => Promise<HttpResponse>): Endpoint {
  return {
    methods: new Map([
      ["GET", { serve }],
      ["HEAD", { serve }],
    ]),
  };
}

/** Whether a client has what it asks for already: `If-None-Match` names the entity tag, or any (RFC 9110, 13.1.2). */
export function isKnown(etag: string, request: HeaderRecord): boolean {
  const known = headerValue(request, "if-none-match")?.split(",") ?? [];
  return known.some((each) => ["*", etag, `W/${etag}`].includes(each.trim()));
}

/** Makes an error response outside of the RPC protocols. @param status the HTTP status for the error */
export type HttpError = (error: ConnectError, status: number) => HttpResponse;

/** What the routes of all endpoints share. */
export interface EndpointOptions {
  /** Makes the error of a refused request that is not a call. */
  readonly refuse: (refusal: Refusal, request: HttpRequest) => Refused;
  /** Makes the response to a refused request. */
  readonly respond: (refused: Refused) => HttpResponse;
  readonly compressions: readonly Compression[];
}

/** The route of a request to an endpoint. */
export class EndpointRoute implements Route {
  readonly maxBytes: number | undefined;
  readonly isOpen: boolean;
  private readonly method: EndpointMethod;
  private readonly options: EndpointOptions;
  readonly call: Call | undefined;
  private readonly rpc: UnaryMethod | undefined;

  /**
   * @param call the call that the request is, if it is one
   * @param rpc the RPC that it calls, if that is served
   */
  constructor(method: EndpointMethod, options: EndpointOptions, call?: Call, rpc?: UnaryMethod) {
    this.method = method;
    this.options = options;
    this.call = call;
    this.rpc = rpc;
    this.isOpen = call?.isOpen !== false;
    this.maxBytes = method.maxBytes;
  }

  async serve(request: HttpRequest): Promise<HttpResponse> {
    const { method, call } = this;
    const { respond, compressions } = this.options;
    const refused = call?.enter(this.rpc);
    if (refused) return respond(refused);
    try {
      if (method.maxBytes !== undefined && request.body.byteLength > 0) {
        const body = decompressBody(request, method.maxBytes, compressions);
        request.body = body instanceof Promise ? await body : body;
      }
      const response = await method.serve(request, call ?? NO_CALL);
      const { status, headers } = response;
      const bytes = Buffer.byteLength(response.body);
      // For a 304, `content-length` would be that of the response which the client has (RFC 9110, 8.6).
      if (status !== 304) headers["content-length"] = String(bytes);
      const minBytes = method.compressMinBytes;
      // A short response that no cache may keep is never compressed, so it need not name what it varies by (RFC 9110,
      // 12.5.5).
      if (minBytes === undefined || (bytes < minBytes && headers["cache-control"] === "no-store")) return response;
      headers["vary"] = headers["vary"] === undefined ? "accept-encoding" : `${headers["vary"]}, accept-encoding`;
      return bytes < minBytes ? response : await compressed(response, request.headers, compressions);
    } catch (failure) {
      return respond(this.refused(failure, request));
    }
  }

  private refused(failure: unknown, request: HttpRequest): Refused {
    // Interceptors have already converted, counted and logged the failure of the call.
    const isOfCall = failure !== undefined && failure === this.call?.failure && !(failure instanceof RefusalError);
    if (isOfCall) return { error: asConnectError(failure), status: undefined };
    const refusal: Refusal = failure instanceof RefusalError ? failure.refusal : { kind: "endpoint", error: failure };
    return this.call?.refuse(refusal) ?? this.options.refuse(refusal, request);
  }
}

/** The call that is passed to an endpoint without an RPC. */
const NO_CALL: EndpointCall = {
  invoke: async () => {
    throw new TypeError("the endpoint names no RPC");
  },
  responseHeader: new RecordHeaders({}),
  contextValues: createContextValues(),
};

/*
 * Content encodings of requests and responses that are not RPCs (RFC 9110, 8.4 and 12.5.3).
 */

/** Whether a client accepts an encoding, by its name in `Accept-Encoding`. */
export function acceptsEncoding(request: HeaderRecord, encoding: string): boolean {
  return (headerValue(request, "accept-encoding") ?? "").split(",").some((item) => {
    const [name = "", ...parameters] = item.split(";");
    return name.trim().toLowerCase() === encoding && !parameters.some((one) => /^ *q=0(?:\.0*)? *$/i.test(one));
  });
}

/**
 * Decompresses the body of a request. Throws or rejects with RefusalError when it is too long, or not valid in its
 * declared encoding.
 */
function decompressBody(
  { headers, body }: HttpRequest,
  maxBytes: number,
  compressions: readonly Compression[],
): Buffer | Promise<Buffer> {
  if (body.byteLength > maxBytes) throw messageTooLarge(maxBytes, `body is larger than ${maxBytes} bytes`);
  const encoding = headerValue(headers, "content-encoding")?.toLowerCase();
  if (encoding === undefined || encoding === "identity") return body;
  const compression = compressions.find(({ name }) => name === encoding);
  if (compression) return inflate(body, compression, maxBytes);
  throw new RefusalError({ kind: "content-encoding", accepted: compressions.map(({ name }) => name) });
}

/** Compresses a response with the first of our encodings that the client accepts. */
async function compressed(
  response: HttpResponse,
  request: HeaderRecord,
  compressions: readonly Compression[],
): Promise<HttpResponse> {
  const compression = compressions.find(({ name }) => acceptsEncoding(request, name));
  if (!compression) return response;
  const { status, headers } = response;
  const body = await compress(bodyBytes(response.body), compression);
  headers["content-encoding"] = compression.name;
  headers["content-length"] = String(body.byteLength);
  return { status, headers, body };
}
