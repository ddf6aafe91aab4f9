import type { DescMethodUnary, Message } from "@bufbuild/protobuf";
import type { ConnectError } from "@connectrpc/connect";
import type { HeaderRecord, HttpRequest, HttpResponse } from "./exchange.ts";

/** What is served at a path, beside the RPCs. */
export interface Endpoint {
  /** How calls through it name their protocol, such as `rest`; undefined where nothing here is a call. */
  readonly protocolName?: string;
  /** What serves each HTTP method; all others are refused. */
  readonly methods: ReadonlyMap<string, EndpointMethod>;
}

/** What serves one HTTP method of a path. */
export interface EndpointMethod {
  /** The RPC that a request becomes: it is authorized and limited as a call of it. Undefined: anybody may ask. */
  readonly rpc?: DescMethodUnary;
  /** The longest body that is read, in bytes; one that is longer is given cut. Undefined: the body is not wanted. */
  readonly maxBytes?: number;
  serve(request: HttpRequest, call: EndpointCall): Promise<HttpResponse>;
}

/** What an endpoint can do with a request. */
export interface EndpointCall {
  /**
   * Makes the call that the request is, through the interceptors.
   *
   * Rejects with whatever they make of a failure, and with a TypeError where the endpoint has no RPC.
   */
  make(message: Message): Promise<{ readonly message: Message; readonly headers: HeaderRecord }>;
  /** What the caller of a request that failed is told: what the call made of its failure, or else of what became no call. */
  errorOf(failure: unknown): ConnectError;
}
