import type { DescMethod, DescMethodUnary } from "@bufbuild/protobuf";
import { type Endpoint, type EndpointOptions, EndpointRoute, type HttpError } from "./endpoints.ts";
import {
  type Find,
  type Found,
  type HeaderRecord,
  type HttpResponse,
  pathOf,
  type RequestHead,
  type Route,
  respondWith,
  type StreamRoute,
} from "./exchange.ts";
import { Cors, type CorsOptions } from "./http/cors.ts";
import { Admission, type AdmissionOptions, AdmittedCall } from "./protocol/admission.ts";
import { COMPRESSIONS } from "./protocol/compression.ts";
import { type CallFormat, formatOf, isRpcOnly } from "./protocol/content-types.ts";
import { errorResponse, httpStatusOf, withHeaders } from "./protocol/error-responses.ts";
import { collectRpcs, type Rpc, type RpcOptions, type UnaryMethod } from "./protocol/methods.ts";
import { RecordHeaders } from "./protocol/record-headers.ts";
import {
  bareRefusal,
  kReadMaxBytes,
  type Refusal,
  type Refuse,
  type Refused,
  type RefusedRequest,
  refuse,
} from "./protocol/refusals.ts";
import { UnaryRoute, unaryFormat } from "./protocol/unary-route.ts";
import { withWebText } from "./protocol/web-text.ts";

/** Connect's routes and options, and those that the transport adds. */
export interface RouterOptions extends RpcOptions, AdmissionOptions {
  /** The path prefix of all RPCs. Default: none. */
  readonly requestPathPrefix?: string;
  /** HTTP endpoints beside the RPCs, by path. Default: none. */
  readonly endpoints?: ReadonlyMap<string, Endpoint>;
  /** What pages of other origins may do with the RPCs. Default: nothing. */
  readonly cors?: CorsOptions;
  /** Makes the error response of requests that are not RPCs. Default: as for Connect's unary calls. */
  readonly httpError?: HttpError;
}

/** A request target is visible ASCII (RFC 9112, 3.2). HTTP/2 servers and proxies interpret other bytes differently. */
const PLAIN_TARGET = /^[\x21-\x7e]+$/;

/** The form of an RPC path. CORS applies to it whether or not such an RPC exists. */
const RPC_PATH = /^\/[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+\/[A-Za-z_]\w*$/;

/**
 * Finds the route of each request: a unary call of this transport, a streaming call of Connect's handler, or an
 * endpoint.
 */
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
    const { httpError = (error, status) => errorResponse(formatOf("application/json"), { error }, status) } = options;
    this.#endpoints = {
      respond: ({ error, status = httpStatusOf(error), shared, headers }) => {
        const response = shared?.http ?? httpError(error, status);
        if (shared) shared.http = response;
        return withHeaders(response, headers);
      },
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
    const path = pathOf(target);
    const rpc = this.#rpcs.get(path);
    const endpoint = rpc ? undefined : this.#options.endpoints?.get(path);
    if (endpoint) return this.#endpoint(endpoint, request);
    if (!rpc && !RPC_PATH.test(path)) return this.#missing(headers, false);
    const preflight = this.#cors?.preflight(httpMethod, headers);
    if (preflight) return respondWith({ status: 204, headers: preflight, body: "" });
    const found = rpc ? this.#call(rpc, request) : this.#missing(headers, true);
    return this.#cors?.allowOf(found, headers) ?? found;
  };

  #call(rpc: Rpc, request: RequestHead): Found {
    const { unary } = rpc;
    const format = unary && request.httpMethod === "POST" ? unaryFormat(unary, request) : undefined;
    if (!unary || !format) return this.#stream(rpc, request);
    return this.#admit(unary.desc, format.protocol, request, {
      onAdmitted: (admitted) => new UnaryRoute(unary, format, admitted),
      onDenied: (refused) => errorResponse(format, refused),
    });
  }

  /** Routes a streaming call to Connect's own handler, and refuses whatever no handler serves. */
  #stream({ handler, unary, readMaxBytes }: Rpc, request: RequestHead): Found {
    const { httpMethod, headers } = request;
    const { method } = handler;
    const format = formatOf(headers["content-type"]);
    const refused = { header: new RecordHeaders(headers), method, protocolName: format.protocol };
    if (httpMethod !== "POST") {
      return this.#refused({ kind: "http-method", httpMethod, allowed: ["POST"] }, refused, format);
    }
    return this.#admit(method, format.protocol, request, {
      onAdmitted: ({ head: { contextValues } }) => {
        // Every valid unary request has been routed already, so this one is invalid for a unary method.
        const isServed = !unary && handler.supportedContentType(String(headers["content-type"] ?? ""));
        if (!isServed) return this.#refused({ kind: "content-type" }, refused, format);
        return { handler, contextValues: contextValues.set(kReadMaxBytes, readMaxBytes) };
      },
      onDenied: (refused) => errorResponse(format, refused),
    });
  }

  #endpoint({ protocolName, methods }: Endpoint, request: RequestHead): Found {
    const { httpMethod, headers } = request;
    const method = methods.get(httpMethod);
    if (!method) {
      const refusal: Refusal = { kind: "http-method", httpMethod, allowed: [...methods.keys()] };
      return this.#refused(refusal, { header: new RecordHeaders(headers), protocolName });
    }
    const { rpc } = method;
    if (!rpc) {
      const { onRefused } = this.#options;
      const refuseIt = (refusal: Refusal) => refuse(refusal, { header: new RecordHeaders(headers) }, onRefused);
      return new EndpointRoute({ method, refuse: refuseIt }, this.#endpoints);
    }
    return this.#admit(rpc, protocolName ?? "http", request, {
      onAdmitted: (admitted) =>
        new EndpointRoute(
          { method, refuse: (refusal) => admitted.refuse(refusal), call: { admitted, rpc: this.#unary.get(rpc) } },
          this.#endpoints,
        ),
      onDenied: this.#endpoints.respond,
    });
  }

  /** Authorizes a call by its headers, before its body is read. */
  #admit(
    method: DescMethod,
    protocolName: string,
    request: RequestHead,
    then: {
      readonly onAdmitted: (admitted: AdmittedCall) => Route | StreamRoute;
      readonly onDenied: (refused: Refused) => HttpResponse;
    },
  ): Found {
    const route = (decision: AdmittedCall | Refused) =>
      decision instanceof AdmittedCall ? then.onAdmitted(decision) : respondWith(then.onDenied(decision));
    const decision = this.#admission.admit(method, protocolName, request);
    return decision instanceof Promise ? decision.then(route) : route(decision);
  }

  /** Refuses a request for a path at which nothing is served. */
  #missing(headers: HeaderRecord, isRpcPath: boolean): Route {
    const format = formatOf(headers["content-type"]);
    const isConnect = format.protocol === "connect";
    const protocolName = isRpcPath || !isConnect ? format.protocol : undefined;
    // Connect's clients know a missing RPC by the HTTP status.
    const answered = isConnect ? undefined : format;
    return this.#refused({ kind: "not-found" }, { header: new RecordHeaders(headers), protocolName }, answered);
  }

  /** The response to a request that is refused before it is routed. Pages of other origins may read it, too. */
  readonly refuse: Refuse = (refusal, headers, method) => {
    const format = formatOf(headers["content-type"]);
    const request = { header: new RecordHeaders(headers), method, protocolName: method && format.protocol };
    const isRpc = method !== undefined || isRpcOnly(format);
    const response = this.#refusalResponse(refusal, request, isRpc ? format : undefined);
    return this.#cors?.allow(response, headers) ?? response;
  };

  #refused(refusal: Refusal, request: RefusedRequest, format?: CallFormat): Route {
    return respondWith(this.#refusalResponse(refusal, request, format));
  }

  /**
   * The response to a refused request: in the format of the RPC, if it is one. Without `onRefused` it is a bare status,
   * as from Connect.
   */
  #refusalResponse(refusal: Refusal, request: RefusedRequest, format?: CallFormat): HttpResponse {
    const { onRefused } = this.#options;
    if (!onRefused) return bareRefusal(refusal);
    const refused = refuse(refusal, request, onRefused);
    return format ? errorResponse(format, refused, refused.status) : this.#endpoints.respond(refused);
  }
}
