import type { DescMethod, DescMethodUnary, Message } from "@bufbuild/protobuf";
import type { ConnectError } from "@connectrpc/connect";
import type { Endpoint, EndpointCall, EndpointMethod } from "./endpoints.ts";
import {
  type Find,
  type Found,
  type HeaderRecord,
  type HttpRequest,
  type HttpResponse,
  pathOf,
  type Route,
  respondWith,
  type StreamRoute,
} from "./exchange.ts";
import { Cors, type CorsOptions } from "./http/cors.ts";
import type { Refuse } from "./http/dispatch.ts";
import { Admission, type AdmissionOptions, type AdmittedCall } from "./protocol/admission.ts";
import { UnaryCall } from "./protocol/call.ts";
import { type CallFormat, formatOf, isRpcOnly } from "./protocol/content-types.ts";
import { errorResponse } from "./protocol/error-responses.ts";
import { collectRpcs, type Rpc, type RpcOptions, type UnaryMethod } from "./protocol/methods.ts";
import { RecordHeaders, recordOf } from "./protocol/record-headers.ts";
import {
  asConnectError,
  bareRefusal,
  defaultError,
  REFUSAL_STATUS,
  type Refusal,
  type RefusedRequest,
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
  readonly httpError?: (error: ConnectError) => HttpResponse;
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
  readonly #httpError: (error: ConnectError) => HttpResponse;

  constructor(options: RouterOptions) {
    this.#options = options;
    this.#admission = new Admission(options);
    this.#cors = options.cors && new Cors(options.cors);
    this.#httpError = options.httpError ?? ((error) => errorResponse(formatOf("application/json"), error));
    for (const { handler, unary } of collectRpcs(options)) {
      this.#rpcs.set((options.requestPathPrefix ?? "") + handler.requestPath, { handler: withWebText(handler), unary });
      if (unary) this.#unary.set(unary.desc, unary);
    }
  }

  readonly find: Find = (httpMethod, target, headers) => {
    if (!PLAIN_TARGET.test(target)) return respondWith(this.refuse({ kind: "malformed-http" }, headers));
    const path = pathOf(target);
    const rpc = this.#rpcs.get(path);
    if (rpc) return this.#withCors(this.#call(rpc, httpMethod, target, headers), headers);
    const endpoint = this.#options.endpoints?.get(path);
    if (endpoint) return this.#endpoint(endpoint, httpMethod, headers);
    const format = formatOf(headers["content-type"]);
    const isRpc = RPC_PATH.test(path);
    const missing = () => {
      const isRpcCall = isRpc || format.protocol !== "connect";
      const request = { ...unroutedRequest(headers), protocolName: isRpcCall ? format.protocol : undefined };
      // Connect's clients know a missing RPC by the HTTP status.
      const isHttp = format.protocol === "connect";
      return this.#refused({ kind: "not-found" }, request, isHttp ? undefined : format);
    };
    return isRpc ? (this.#preflight(httpMethod, headers) ?? this.#withCors(missing(), headers)) : missing();
  };

  #call(rpc: Rpc, httpMethod: string, target: string, headers: HeaderRecord): Found {
    const { unary } = rpc;
    const format = unary && unaryFormat(unary, httpMethod, target, headers);
    if (!format) return this.#preflight(httpMethod, headers) ?? this.#stream(rpc, httpMethod, headers);
    return this.#admit(unary.desc, format.protocol, headers, {
      onAdmitted: (admitted) => new UnaryRoute(unary, format, admitted),
      onDenied: (error) => errorResponse(format, error),
    });
  }

  /** Routes a streaming call to Connect's own handler, and refuses whatever no handler serves. */
  #stream({ handler, unary }: Rpc, httpMethod: string, headers: HeaderRecord): Found {
    const { method, allowedMethods } = handler;
    const format = formatOf(headers["content-type"]);
    const request = { ...unroutedRequest(headers), method, protocolName: format.protocol };
    if (!allowedMethods.includes(httpMethod)) {
      return this.#refused({ kind: "http-method", httpMethod, allowed: allowedMethods }, request, format);
    }
    return this.#admit(method, format.protocol, headers, {
      onAdmitted: ({ contextValues }) => {
        // Every valid unary request has been routed already, so this one is invalid for a unary method.
        const isServed = !unary && handler.supportedContentType(String(headers["content-type"] ?? ""));
        return isServed ? { handler, contextValues } : this.#refused({ kind: "content-type" }, request, format);
      },
      onDenied: (error) => errorResponse(format, error),
    });
  }

  #endpoint({ protocolName, methods }: Endpoint, httpMethod: string, headers: HeaderRecord): Found {
    const method = methods.get(httpMethod);
    if (!method) {
      const refusal: Refusal = { kind: "http-method", httpMethod, allowed: [...methods.keys()] };
      return this.#refused(refusal, { ...unroutedRequest(headers), protocolName });
    }
    const { rpc } = method;
    if (!rpc) {
      const call = this.#withoutRpc(headers);
      return { ...bodyLimit(method), serve: (request) => this.#serveEndpoint(method, request, call) };
    }
    return this.#admit(rpc, protocolName ?? "http", headers, {
      onAdmitted: (admitted) => this.#endpointRoute(method, rpc, admitted),
      onDenied: this.#httpError,
    });
  }

  /** Authorizes a call by its headers, before its body is read. */
  #admit(
    method: DescMethod,
    protocolName: string,
    headers: HeaderRecord,
    then: {
      readonly onAdmitted: (admitted: AdmittedCall) => Route | StreamRoute;
      readonly onDenied: (error: ConnectError) => HttpResponse;
    },
  ): Found {
    const refuse = (reason: unknown) => respondWith(then.onDenied(asConnectError(reason)));
    try {
      const admitted = this.#admission.admit(method, protocolName, headers);
      return admitted instanceof Promise ? admitted.then(then.onAdmitted, refuse) : then.onAdmitted(admitted);
    } catch (reason) {
      return refuse(reason);
    }
  }

  #endpointRoute(method: EndpointMethod, rpc: DescMethodUnary, admitted: AdmittedCall): Route {
    return {
      ...bodyLimit(method),
      serve: async (request) => {
        let callFailure: unknown;
        const call: EndpointCall = {
          invoke: (message) =>
            this.#invokeRpc(rpc, message, request, admitted).catch((failure) => {
              callFailure = failure;
              throw failure;
            }),
          // Interceptors have already converted, counted and logged the failure of the call.
          toError: (failure) =>
            failure === callFailure ? asConnectError(failure) : admitted.refuse({ kind: "endpoint", error: failure }),
        };
        try {
          admitted.begin();
        } catch (reason) {
          return this.#httpError(asConnectError(reason));
        }
        return this.#serveEndpoint(method, request, call);
      },
      end: () => admitted.end(),
    };
  }

  /** Calls a method through the interceptors, as a request for the RPC would. */
  async #invokeRpc(
    rpc: DescMethodUnary,
    message: Message,
    source: HttpRequest,
    admitted: AdmittedCall,
  ): ReturnType<EndpointCall["invoke"]> {
    const method = this.#unary.get(rpc);
    if (!method) throw new TypeError(`${rpc.name} is not routed`);
    const { protocolName, header: requestHeader, contextValues } = admitted;
    const answer = { timeoutMs: undefined, responseHeader: {}, responseTrailer: {} };
    const call = new UnaryCall({ method, protocolName, source, requestHeader, contextValues, ...answer });
    try {
      const output = await call.invoke(message);
      call.end();
      return { message: output, headers: recordOf(call.responseHeader) };
    } catch (failure) {
      call.end(failure);
      throw failure;
    }
  }

  /** Serves an endpoint. Whatever it throws becomes an error response. */
  async #serveEndpoint(method: EndpointMethod, request: HttpRequest, call: EndpointCall): Promise<HttpResponse> {
    try {
      return await method.serve(request, call);
    } catch (failure) {
      return this.#httpError(call.toError(failure));
    }
  }

  #withoutRpc(headers: HeaderRecord): EndpointCall {
    return {
      invoke: () => Promise.reject(new TypeError("the endpoint names no RPC")),
      toError: (error) => {
        const refusal: Refusal = { kind: "endpoint", error };
        return this.#options.onRefused?.(refusal, unroutedRequest(headers)) ?? defaultError(refusal);
      },
    };
  }

  #withCors(found: Found, headers: HeaderRecord): Found {
    return this.#cors?.withCors(found, headers) ?? found;
  }

  #preflight(httpMethod: string, headers: HeaderRecord): Route | undefined {
    const preflight = this.#cors?.preflight(httpMethod, headers);
    return preflight && respondWith({ status: 204, headers: preflight, body: new Uint8Array(0) });
  }

  /** The response to a request that is refused before it is routed. Pages of other origins may read it, too. */
  readonly refuse: Refuse = (refusal, headers, method) => {
    const format = formatOf(headers["content-type"]);
    const request = { ...unroutedRequest(headers), method, protocolName: method && format.protocol };
    const isRpc = method !== undefined || isRpcOnly(format);
    const response = this.#refusalResponse(refusal, request, isRpc ? format : undefined);
    return { ...response, headers: { ...response.headers, ...this.#cors?.headersFor(headers) } };
  };

  #refused(refusal: Refusal, request: RefusedRequest, format?: CallFormat): Route {
    return respondWith(this.#refusalResponse(refusal, request, format));
  }

  /**
   * The response to a refused request: in the format of the RPC, if it is one. Without `onRefused` it is a bare status,
   * as from Connect.
   */
  #refusalResponse(refusal: Refusal, request: RefusedRequest, format?: CallFormat): HttpResponse {
    const error = this.#options.onRefused?.(refusal, request);
    if (!error) return bareRefusal(refusal);
    return format ? errorResponse(format, error, REFUSAL_STATUS[refusal.kind]) : this.#httpError(error);
  }
}

/** Describes a request that is not for an RPC to `onRefused`. */
function unroutedRequest(headers: HeaderRecord): RefusedRequest {
  return { method: undefined, protocolName: undefined, header: new RecordHeaders(headers), arrived: undefined };
}

/** How much of the body an endpoint wants: none of it unless it says so. */
function bodyLimit({ maxBytes }: EndpointMethod): Pick<Route, "isTooLong"> {
  return maxBytes === undefined ? {} : { isTooLong: (_head, total) => total > maxBytes };
}
