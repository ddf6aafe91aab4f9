import type { DescMethod, DescMethodUnary, Message } from "@bufbuild/protobuf";
import type { ConnectError } from "@connectrpc/connect";
import type { Endpoint, EndpointCall, EndpointMethod } from "./endpoints.ts";
import {
  answerNow,
  type Find,
  type Found,
  type HeaderRecord,
  type HttpRequest,
  type HttpResponse,
  pathOf,
  type Route,
  type StreamRoute,
} from "./exchange.ts";
import { Cors, type CorsOptions } from "./http/cors.ts";
import type { Refuse } from "./http/dispatch.ts";
import { Admission, type AdmissionOptions, type Admitted } from "./protocol/admission.ts";
import { UnaryCall } from "./protocol/call.ts";
import { formatOf, isRpcOnly } from "./protocol/content-types.ts";
import { errorResponse } from "./protocol/error-responses.ts";
import { collectRpcs, type Rpc, type RpcOptions, type UnaryMethod } from "./protocol/methods.ts";
import { RecordHeaders, recordOf } from "./protocol/record-headers.ts";
import {
  asConnectError,
  defaultError,
  REFUSAL_STATUS,
  type Refusal,
  type RefusedRequest,
} from "./protocol/refusals.ts";
import { UnaryRoute, unaryFormat } from "./protocol/unary-route.ts";
import { withWebText } from "./protocol/web-text.ts";

/** What is served: Connect's routes and options, and what the transport adds. */
export interface RouterOptions extends RpcOptions, AdmissionOptions {
  /** What the paths of all RPCs begin with. Default: nothing. */
  readonly requestPathPrefix?: string;
  /** What is served beside the RPCs, by path. Default: nothing. */
  readonly endpoints?: ReadonlyMap<string, Endpoint>;
  /** What browsers of other origins may do with the RPCs. Default: nothing. */
  readonly cors?: CorsOptions;
  /** An error as what is no RPC answers it. Default: as Connect's unary calls do. */
  readonly httpError?: (error: ConnectError) => HttpResponse;
}

/** Targets are visible ASCII (RFC 9112, 3.2); what else comes over HTTP/2 is one thing to one reader and another to the next. */
const PLAIN_TARGET = /^[\x21-\x7e]+$/;

/** A path that browsers may ask for as an RPC's, be there one or not. */
const RPC_PATH = /^\/[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+\/[A-Za-z_]\w*$/;

/** Finds what serves each request: a unary call by way of this transport, a stream by way of Connect's own handler, or an endpoint. */
export class Router {
  /** Undefined without `onRefused`: a refusal that is no call's is a status alone then. */
  readonly refuse: Refuse | undefined;
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
    this.refuse = options.onRefused && ((refusal, headers) => this.#refused(refusal, headers));
    for (const { handler, unary } of collectRpcs(options)) {
      this.#rpcs.set((options.requestPathPrefix ?? "") + handler.requestPath, { handler: withWebText(handler), unary });
      if (unary) this.#unary.set(unary.desc, unary);
    }
  }

  readonly find: Find = (httpMethod, target, headers) => {
    if (!PLAIN_TARGET.test(target)) return answerNow(this.#refused({ kind: "malformed-http" }, headers));
    const path = pathOf(target);
    const rpc = this.#rpcs.get(path);
    if (rpc) return this.#readable(this.#call(rpc, httpMethod, target, headers), headers);
    const endpoint = this.#options.endpoints?.get(path);
    if (endpoint) return this.#endpoint(endpoint, httpMethod, headers);
    const format = formatOf(headers["content-type"]);
    const isRpc = RPC_PATH.test(path);
    const missing = () => {
      const protocolName = isRpc || isRpcOnly(format) ? format.protocol : undefined;
      return answerNow(this.#refused({ kind: "not-found" }, headers, { ...of(headers), protocolName }));
    };
    return isRpc ? (this.#preflight(httpMethod, headers) ?? this.#readable(missing(), headers)) : missing();
  };

  #call(rpc: Rpc, httpMethod: string, target: string, headers: HeaderRecord): Found {
    const { unary } = rpc;
    const format = unary && unaryFormat(unary, httpMethod, target, headers);
    if (!format) return this.#preflight(httpMethod, headers) ?? this.#stream(rpc, httpMethod, headers);
    return this.#admit(unary.desc, format.protocol, headers, {
      letIn: (admitted) => new UnaryRoute(unary, format, admitted),
      refuse: (error) => errorResponse(format, error),
    });
  }

  /** Leaves a request to Connect's own handler, which is asked for streams, and for what it refuses if nobody else does. */
  #stream({ handler, unary }: Rpc, httpMethod: string, headers: HeaderRecord): Found {
    const { method, allowedMethods } = handler;
    const isRefusing = this.refuse !== undefined;
    const format = formatOf(headers["content-type"]);
    const request = { ...of(headers), method, protocolName: format.protocol };
    if (isRefusing && !allowedMethods.includes(httpMethod)) {
      return answerNow(this.#refused({ kind: "http-method", httpMethod, allowed: allowedMethods }, headers, request));
    }
    return this.#admit(method, format.protocol, headers, {
      letIn: ({ contextValues }) => {
        // What is unary is not Connect's to serve, in every form that there is of it.
        const isServed = !unary && handler.supportedContentType(String(headers["content-type"] ?? ""));
        if (isRefusing && !isServed) return answerNow(this.#refused({ kind: "content-type" }, headers, request));
        return { handler, contextValues };
      },
      refuse: (error) => errorResponse(format, error),
    });
  }

  #endpoint({ protocolName, methods }: Endpoint, httpMethod: string, headers: HeaderRecord): Found {
    const method = methods.get(httpMethod);
    if (!method) {
      const refusal: Refusal = { kind: "http-method", httpMethod, allowed: [...methods.keys()] };
      return answerNow(this.#plainly(refusal, { ...of(headers), protocolName }));
    }
    const { rpc } = method;
    if (!rpc) return { serve: (request) => this.#served(method, request, this.#noCall(headers)) };
    return this.#admit(rpc, protocolName ?? "http", headers, {
      letIn: (admitted) => this.#endpointRoute(method, rpc, admitted),
      refuse: this.#httpError,
    });
  }

  /** Asks by its header whether a call may come in. */
  #admit(
    method: DescMethod,
    protocolName: string,
    headers: HeaderRecord,
    then: {
      readonly letIn: (admitted: Admitted) => Route | StreamRoute;
      readonly refuse: (error: ConnectError) => HttpResponse;
    },
  ): Found {
    const refuse = (reason: unknown) => answerNow(then.refuse(asConnectError(reason)));
    try {
      const admitted = this.#admission.admit(method, protocolName, headers);
      return admitted instanceof Promise ? admitted.then(then.letIn, refuse) : then.letIn(admitted);
    } catch (reason) {
      return refuse(reason);
    }
  }

  #endpointRoute(method: EndpointMethod, rpc: DescMethodUnary, admitted: Admitted): Route {
    const { maxBytes = 0 } = method;
    return {
      isTooLong: (_head, total) => total > maxBytes,
      serve: async (request) => {
        let failureOfCall: unknown;
        const call: EndpointCall = {
          make: (message) =>
            this.#make(rpc, message, request, admitted).catch((failure) => {
              failureOfCall = failure;
              throw failure;
            }),
          // What the interceptors made of a failure has been told.
          errorOf: (failure) =>
            failure === failureOfCall ? asConnectError(failure) : admitted.refuse({ kind: "endpoint", error: failure }),
        };
        try {
          admitted.begin();
        } catch (reason) {
          return this.#httpError(asConnectError(reason));
        }
        return this.#served(method, request, call);
      },
      end: () => admitted.end(),
    };
  }

  /** Calls a method as a request for it would, through the same interceptors. */
  async #make(
    rpc: DescMethodUnary,
    message: Message,
    source: HttpRequest,
    admitted: Admitted,
  ): ReturnType<EndpointCall["make"]> {
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

  /** Whatever an endpoint throws is answered. */
  async #served(method: EndpointMethod, request: HttpRequest, call: EndpointCall): Promise<HttpResponse> {
    try {
      return await method.serve(request, call);
    } catch (failure) {
      return this.#httpError(call.errorOf(failure));
    }
  }

  #noCall(headers: HeaderRecord): EndpointCall {
    return {
      make: () => Promise.reject(new TypeError("the endpoint names no RPC")),
      errorOf: (error) => this.#told({ kind: "endpoint", error }, of(headers)),
    };
  }

  #readable(found: Found, headers: HeaderRecord): Found {
    return this.#cors?.readable(found, headers) ?? found;
  }

  #preflight(httpMethod: string, headers: HeaderRecord): Route | undefined {
    const preflight = this.#cors?.preflight(httpMethod, headers);
    return preflight && answerNow({ status: 204, headers: preflight, body: new Uint8Array(0) });
  }

  /** The answer to a request that is refused: in the protocol that its content type names, if that is one of RPCs alone. */
  #refused(refusal: Refusal, headers: HeaderRecord, request: RefusedRequest = of(headers)): HttpResponse {
    const format = formatOf(headers["content-type"]);
    if (request.method === undefined && !isRpcOnly(format)) return this.#plainly(refusal, request);
    const status = REFUSAL_STATUS[refusal.kind];
    return this.#options.onRefused
      ? errorResponse(format, this.#told(refusal, request), status)
      : { status: status ?? 400, headers: {}, body: "" };
  }

  /** The answer to a refused request that is of no protocol of RPCs. */
  #plainly(refusal: Refusal, request: RefusedRequest): HttpResponse {
    if (this.#options.onRefused) return this.#httpError(this.#told(refusal, request));
    return { status: REFUSAL_STATUS[refusal.kind] ?? 400, headers: {}, body: "" };
  }

  #told(refusal: Refusal, request: RefusedRequest): ConnectError {
    return this.#options.onRefused?.(refusal, request) ?? defaultError(refusal);
  }
}

/** What is known of a request that is for no RPC. */
function of(headers: HeaderRecord): RefusedRequest {
  return { method: undefined, protocolName: undefined, header: new RecordHeaders(headers), arrived: undefined };
}
