import type { DescMethodUnary } from "@bufbuild/protobuf";
import { codeToHttpStatus } from "@connectrpc/connect/protocol-connect";
import { type Endpoint, type EndpointOptions, endpointRoute, type HttpError } from "./endpoints.ts";
import { Cors, type CorsOptions } from "./http/cors.ts";
import {
  type Find,
  type Found,
  type HeaderRecord,
  type HttpResponse,
  type RequestHead,
  type Route,
  respondWith,
  whenKnown,
} from "./http-types.ts";
import { Admission, type AdmissionOptions } from "./protocol/admission.ts";
import { Call } from "./protocol/call.ts";
import { COMPRESSIONS } from "./protocol/compression.ts";
import { errorResponse } from "./protocol/error-responses.ts";
import { type CallFormat, formatOf } from "./protocol/headers.ts";
import { collectRpcs, type Rpc, type RpcOptions, type UnaryMethod } from "./protocol/methods.ts";
import { bareRefusal, kReadMaxBytes, type Refusal, type Refuse, type RefusedRequest } from "./protocol/refusals.ts";
import { UnaryRoute } from "./protocol/unary-route.ts";
import { withWebText } from "./protocol/web-text.ts";

/** Connect's routes and options, and the options of the transport. */
export interface RouterOptions extends RpcOptions, AdmissionOptions {
  /** The path prefix of all RPCs. Default: none. */
  readonly requestPathPrefix?: string;
  /** HTTP endpoints by path. Default: none. */
  readonly endpoints?: ReadonlyMap<string, Endpoint>;
  /** Finds the endpoint of a path that is in neither `routes` nor `endpoints`. Default: finds none. */
  readonly endpointAt?: (path: string) => Endpoint | undefined;
  /** Allows web pages of other origins to call the RPCs. Default: no other origin is allowed. */
  readonly cors?: CorsOptions;
  /**
   * Creates the error response to a request that is not an RPC. Default: creates the error response of a unary Connect
   * call.
   */
  readonly httpError?: HttpError;
}

/**
 * Matches a request target that contains only visible ASCII characters and no fragment (RFC 9112, 3.2). The router
 * refuses any other target, because a proxy and the server could interpret it differently.
 */
const PLAIN_TARGET = /^[\x21\x22\x24-\x7e]+$/;

/** The form of an RPC path. CORS applies to a path of this form even if the RPC does not exist. */
const RPC_PATH = /^\/[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+\/[A-Za-z_]\w*$/;

/** Finds the route of each request: a unary call, a streaming call (served by Connect's handler), or an endpoint. */
export class Router {
  readonly #options: RouterOptions;
  readonly #admission: Admission;
  readonly #rpcs = new Map<string, Rpc>();
  readonly #unary = new Map<DescMethodUnary, UnaryMethod>();
  readonly #cors: Cors | undefined;
  readonly #endpoints: EndpointOptions;

  constructor(options: RouterOptions) {
    this.#options = options;
    this.#admission = new Admission(options);
    this.#cors = options.cors && new Cors(options.cors);
    const { httpError = (error, status) => errorResponse(formatOf("application/json"), error, status) } = options;
    this.#endpoints = {
      respond: ({ error, status = codeToHttpStatus(error.code) }) => httpError(error, status),
      refuse: (refusal, { headers }) => this.#admission.refuse(refusal, { headers }),
      compressions: options.acceptCompression ?? COMPRESSIONS,
    };
    for (const { handler, unary, readMaxBytes } of collectRpcs(options)) {
      const path = (options.requestPathPrefix ?? "") + handler.requestPath;
      this.#rpcs.set(path, { handler: withWebText(handler), unary, readMaxBytes });
      if (unary) this.#unary.set(unary.desc, unary);
    }
  }

  readonly find: Find = (request) => {
    const { httpMethod, target, headers } = request;
    if (!PLAIN_TARGET.test(target)) return respondWith(this.refuse({ kind: "malformed-http" }, headers));
    const question = target.indexOf("?");
    const path = question < 0 ? target : target.slice(0, question);
    const rpc = this.#rpcs.get(path);
    const endpoint = rpc ? undefined : (this.#options.endpoints?.get(path) ?? this.#options.endpointAt?.(path));
    if (endpoint) return this.#endpoint(endpoint, request);
    if (!rpc && !RPC_PATH.test(path)) return this.#missing(headers, false);
    // If a page calls another origin, the browser may send an OPTIONS request before the call. Both requests have an
    // `Origin` header.
    const cors = httpMethod === "OPTIONS" || headers["origin"] !== undefined ? this.#cors : undefined;
    const preflight = cors?.preflight(httpMethod, headers);
    if (preflight) return respondWith({ status: 204, headers: preflight, body: "" });
    const found = rpc ? this.#call(rpc, request) : this.#missing(headers, true);
    return cors ? cors.allowOf(found, headers) : found;
  };

  #call({ handler, unary, readMaxBytes }: Rpc, request: RequestHead): Found {
    const { httpMethod, headers } = request;
    const { method } = handler;
    const format = formatOf(headers["content-type"]);
    const { protocol } = format;
    if (httpMethod !== "POST") {
      const refusal: Refusal = { kind: "http-method", httpMethod, allowed: ["POST"] };
      return this.#refused(refusal, { headers, method, protocolName: protocol }, format);
    }
    const served = unary && format.isKnown && !format.isStream && unary.protocols[protocol] ? unary : undefined;
    return whenKnown(this.#admission.admit(method, protocol, request), (call) => {
      if (!(call instanceof Call)) return respondWith(errorResponse(format, call.error));
      if (served) return new UnaryRoute(served, format, call);
      const isServed = !unary && handler.supportedContentType(String(headers["content-type"] ?? ""));
      if (!isServed)
        return this.#refused({ kind: "content-type" }, { headers, method, protocolName: protocol }, format);
      return { handler, contextValues: call.contextValues.set(kReadMaxBytes, readMaxBytes) };
    });
  }

  #endpoint({ protocolName, methods }: Endpoint, request: RequestHead): Found {
    const { httpMethod, headers } = request;
    const method = methods.get(httpMethod);
    if (!method) {
      const refusal: Refusal = { kind: "http-method", httpMethod, allowed: [...methods.keys()] };
      return this.#refused(refusal, { headers, protocolName });
    }
    const { rpc } = method;
    if (!rpc) return endpointRoute(method, this.#endpoints);
    const unary = this.#unary.get(rpc);
    return whenKnown(this.#admission.admit(rpc, protocolName ?? "http", request), (call) =>
      call instanceof Call
        ? endpointRoute(method, this.#endpoints, call, unary)
        : respondWith(this.#endpoints.respond(call)),
    );
  }

  #missing(headers: HeaderRecord, isRpcPath: boolean): Route {
    const format = formatOf(headers["content-type"]);
    const isConnect = format.protocol === "connect";
    const protocolName = isRpcPath || !isConnect ? format.protocol : undefined;
    // Connect's clients recognize a missing RPC by the HTTP status 404. They therefore receive the same response as for
    // a missing endpoint.
    const answered = isConnect ? undefined : format;
    return this.#refused({ kind: "not-found" }, { headers, protocolName }, answered);
  }

  /**
   * Creates the response to a request that is refused before a route serves it. If `cors` allows the origin of the
   * request, the page can read the response.
   */
  readonly refuse: Refuse = (refusal, headers, method) => {
    const format = formatOf(headers["content-type"]);
    const request = { headers, method, protocolName: method && format.protocol };
    // Endpoints share the content types of Connect's unary calls, so such a content type does not show whether a
    // request is an RPC.
    const isRpc = method !== undefined || format.protocol !== "connect" || format.isStream;
    const response = this.#refusalResponse(refusal, request, isRpc ? format : undefined);
    return this.#cors?.allow(response, headers) ?? response;
  };

  #refused(refusal: Refusal, request: RefusedRequest, format?: CallFormat): Route {
    return respondWith(this.#refusalResponse(refusal, request, format));
  }

  /**
   * Creates the response to a refused request. If `onRefused` is omitted, the response contains only a status, like the
   * response of Connect's adapter.
   */
  #refusalResponse(refusal: Refusal, request: RefusedRequest, format?: CallFormat): HttpResponse {
    if (!this.#options.onRefused) return bareRefusal(refusal);
    const refused = this.#admission.refuse(refusal, request);
    return format ? errorResponse(format, refused.error, refused.status) : this.#endpoints.respond(refused);
  }
}
