import type { DescMethodUnary, Message } from "@bufbuild/protobuf";
import { type ConnectError, type ContextValues, createContextValues } from "@connectrpc/connect";
import type { Compression } from "@connectrpc/connect/protocol";
import { bodyBytes, type HeaderRecord, type HttpRequest, type HttpResponse, type Route } from "./http-types.ts";
import type { Call } from "./protocol/call.ts";
import { compress, inflate } from "./protocol/compression.ts";
import { headerValue } from "./protocol/headers.ts";
import type { UnaryMethod } from "./protocol/methods.ts";
import { asConnectError, messageTooLarge, type Refusal, RefusalError, type Refused } from "./protocol/refusals.ts";

export interface Endpoint {
  /** The protocol name of calls to this endpoint, such as `rest`. Omit the name if no method has an `rpc`. */
  readonly protocolName?: string;
  /** The handlers by HTTP method. If this map does not contain the method of a request, the request is refused. */
  readonly methods: ReadonlyMap<string, EndpointMethod>;
}

export interface EndpointMethod {
  /**
   * The RPC that the request calls. The authorization and the limits of the RPC apply to the request. Omit the RPC if
   * requests need no authorization.
   */
  readonly rpc?: DescMethodUnary;
  /**
   * The maximum size of the body in bytes. The limit applies to the compressed body and to the decompressed body. If
   * omitted, the body is not read.
   */
  readonly maxBytes?: number;
  /** The transport compresses response bodies of at least this size, in bytes. Default: no response is compressed. */
  readonly compressMinBytes?: number;
  /**
   * Serves a request. The body of the request is already decompressed. The transport adds the header `content-length`
   * to the response. To refuse the request, throw RefusalError. The method may also rethrow an error of `invoke`. If it
   * throws any other error, the transport refuses the request with a refusal of the kind `endpoint`.
   */
  serve(request: HttpRequest, call: EndpointCall): Promise<HttpResponse>;
}

/** Calls the RPC of the endpoint. Its methods use `this`, so call them on the object. */
export interface EndpointCall {
  /**
   * Passes a message through the interceptors to the RPC. Call this method once. Rejects with an error of the
   * interceptors or of the RPC. Rejects with a TypeError if the routes do not contain the RPC.
   */
  invoke(message: Message): Promise<Message>;
  /** The response headers of the RPC, set by `invoke`. `recordOf` converts the headers to a modifiable record. */
  readonly responseHeader: Headers;
  readonly contextValues: ContextValues;
}

/** Creates an endpoint for GET and HEAD. */
export function readEndpoint(serve: (request: HttpRequest) => Promise<HttpResponse>): Endpoint {
  return {
    methods: new Map([
      ["GET", { serve }],
      ["HEAD", { serve }],
    ]),
  };
}

/** Returns whether `If-None-Match` contains the entity tag or `*`. If it does, respond with 304 (RFC 9110, 13.1.2). */
export function isKnown(etag: string, request: HeaderRecord): boolean {
  const known = headerValue(request, "if-none-match")?.split(",") ?? [];
  return known.some((each) => ["*", etag, `W/${etag}`].includes(each.trim()));
}

/** Creates the error response of a request that is not an RPC. @param status the HTTP status of the error */
export type HttpError = (error: ConnectError, status: number) => HttpResponse;

export interface EndpointOptions {
  readonly refuse: (refusal: Refusal, request: HttpRequest) => Refused;
  readonly respond: (refused: Refused) => HttpResponse;
  readonly compressions: readonly Compression[];
}

/**
 * Creates the route of a request to an endpoint.
 *
 * @param call the call of the RPC; undefined if the endpoint has no RPC
 * @param rpc the method that the call invokes; undefined if the routes do not contain the RPC
 */
export function endpointRoute(
  method: EndpointMethod,
  { refuse, respond, compressions }: EndpointOptions,
  call?: Call,
  rpc?: UnaryMethod,
): Route {
  const refused = (failure: unknown, request: HttpRequest): Refused => {
    // If `invoke` threw this error, the interceptors have already converted, counted and logged it.
    const isOfCall = failure !== undefined && failure === call?.failure && !(failure instanceof RefusalError);
    if (isOfCall) return { error: asConnectError(failure), status: undefined };
    const refusal: Refusal = failure instanceof RefusalError ? failure.refusal : { kind: "endpoint", error: failure };
    return call?.refuse(refusal) ?? refuse(refusal, request);
  };
  const serve = async (request: HttpRequest): Promise<HttpResponse> => {
    call?.enter(rpc);
    try {
      if (method.maxBytes !== undefined && request.body.byteLength > 0) {
        const body = decompressBody(request, method.maxBytes, compressions);
        request.body = body instanceof Promise ? await body : body;
      }
      const response = await method.serve(request, call ?? NO_CALL);
      const { status, headers } = response;
      const bytes = Buffer.byteLength(response.body);
      // In a 304 response, `content-length` would mean the length of the client's copy (RFC 9110, 8.6).
      if (status !== 304) headers["content-length"] = String(bytes);
      const minBytes = method.compressMinBytes;
      // Omit `vary` if the response is too short to compress and no cache may store the response (RFC 9110, 12.5.5).
      if (minBytes === undefined || (bytes < minBytes && headers["cache-control"] === "no-store")) return response;
      headers["vary"] = headers["vary"] === undefined ? "accept-encoding" : `${headers["vary"]}, accept-encoding`;
      return bytes < minBytes ? response : await compressed(response, request.headers, compressions);
    } catch (failure) {
      return respond(refused(failure, request));
    }
  };
  return { maxBytes: method.maxBytes, serve, call };
}

const NO_CALL: EndpointCall = {
  invoke: async () => {
    throw new TypeError("the endpoint has no RPC");
  },
  // In Node, the first use of `Headers` loads undici, which takes 10 % of the CPU time that a server needs to start.
  get responseHeader() {
    return new Headers();
  },
  contextValues: createContextValues(),
};

/** Returns whether `Accept-Encoding` lists an encoding and does not exclude it by `q=0` (RFC 9110, 12.5.3). */
export function acceptsEncoding(request: HeaderRecord, encoding: string): boolean {
  return (headerValue(request, "accept-encoding") ?? "").split(",").some((item) => {
    const [name = "", ...parameters] = item.split(";");
    return name.trim().toLowerCase() === encoding && !parameters.some((one) => /^ *q=0(?:\.0*)? *$/i.test(one));
  });
}

/**
 * Decompresses a request body (RFC 9110, 8.4). Throws or rejects with RefusalError if the body is too large, if it is
 * invalid, or if the encoding is not supported.
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

/**
 * Compresses a response with the first of `compressions` that the client accepts. If the client accepts none of them,
 * returns the response unchanged.
 */
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
