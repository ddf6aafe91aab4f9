import type { DescMethodUnary, Message } from "@bufbuild/protobuf";
import type { ConnectError } from "@connectrpc/connect";
import type { HeaderRecord, HttpRequest, HttpResponse } from "./exchange.ts";

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
   * The maximum body size, in bytes. Reading stops soon after it, so `serve` must refuse a body that is longer.
   * Undefined: the body is not read.
   */
  readonly maxBytes?: number;
  serve(request: HttpRequest, call: EndpointCall): Promise<HttpResponse>;
}

/** Lets an endpoint call its RPC. */
export interface EndpointCall {
  /**
   * Calls the RPC through the interceptors. Rejects with the error that the interceptors produce, or with a TypeError
   * when the endpoint has no RPC.
   */
  invoke(message: Message): Promise<{ readonly message: Message; readonly headers: HeaderRecord }>;
  /**
   * Converts a failure to the error for the client. Errors of the call itself are returned as the interceptors made
   * them; others pass through `onRefused`.
   */
  toError(failure: unknown): ConnectError;
}
