import type { DescMethodUnary, MessageShape } from "@bufbuild/protobuf";
import { MethodOptions_IdempotencyLevel } from "@bufbuild/protobuf/wkt";
import type { ConnectError, ConnectRouter, ConnectRouterOptions, ContextValues } from "@connectrpc/connect";
import { parseContentType as parseConnectType } from "@connectrpc/connect/protocol-connect";
import { parseContentType as parseGrpcType } from "@connectrpc/connect/protocol-grpc";
import { parseContentType as parseGrpcWebType } from "@connectrpc/connect/protocol-grpc-web";
import { asConnectError, type Hooks, pathOf, type Route, type WireRequest, type WireResponse } from "../wire.ts";
import { type Admitted, admitted } from "./admission.ts";
import { type CallSource, UnaryCall } from "./call.ts";
import { serveConnect } from "./connect.ts";
import { exceedsEnvelope, exceedsText, type GrpcType, serveGrpc } from "./grpc.ts";
import { type UnaryMethod, unaryMethods } from "./methods.ts";
import { type HeaderRecord, recordOf } from "./record-headers.ts";
import { answerNow, refuseConnect, refuseGrpc } from "./refusals.ts";

/** Options of the unary transport: those of Connect's router, and what the transport adds. */
export interface UnaryTransportOptions extends ConnectRouterOptions {
  readonly routes: (router: ConnectRouter) => void;
  /** What the paths of all methods begin with. Default: nothing. */
  readonly requestPathPrefix?: string;
  /** Lets a call in by its header, before its body is read, or refuses it. Default: all are let in. */
  readonly admit?: Hooks["admit"];
  /** The context values of a request, by its headers. Default: none. */
  readonly contextValues?: Hooks["contextValues"];
  /** Replaces the error of a request that cannot be decoded. Default: Connect's error as it is. */
  readonly onRefused?: Hooks["onRefused"];
}

/** A call from inside of the process. */
export interface LocalCall {
  readonly source: CallSource;
  readonly header: Headers;
  readonly contextValues: ContextValues;
  readonly protocolName: string;
}

type Format = {
  readonly protocol: "grpc" | "grpcWeb" | "connect";
  readonly protocolName: "grpc" | "grpc-web" | "connect";
  readonly isTooLong: (head: Uint8Array, total: number, maxBytes: number) => boolean;
  readonly serve: (
    method: UnaryMethod,
    request: WireRequest,
    admitted: Admitted,
    hooks: Hooks,
  ) => Promise<WireResponse>;
  readonly refuse: (error: ConnectError) => WireResponse;
};

/** Content types are few, but callers choose them, so the table of known ones stays this small. */
const MAX_KNOWN_TYPES = 256;

/**
 * An adapter to Connect for unary methods, without streams, web requests and
 * async iterables between the bytes and the call. It serves the same routes
 * with the same interceptors and options as Connect's own adapters, and leaves
 * to them whatever it does not know.
 */
export class UnaryTransport {
  readonly #methods = new Map<string, UnaryMethod>();
  readonly #byDesc = new Map<DescMethodUnary, UnaryMethod>();
  readonly #options: UnaryTransportOptions;
  readonly #formats = new Map<string, Format>();

  constructor(options: UnaryTransportOptions) {
    this.#options = options;
    for (const method of unaryMethods(options.routes, options)) {
      this.#methods.set((options.requestPathPrefix ?? "") + method.path, method);
      this.#byDesc.set(method.desc, method);
    }
  }

  /**
   * What serves a request; undefined when Connect's own adapter is to answer it. A promise only where letting the call
   * in takes one.
   *
   * @param target path and query
   */
  route(httpMethod: string, target: string, headers: HeaderRecord): Route | Promise<Route> | undefined {
    const method = this.#methods.get(pathOf(target));
    if (!method) return undefined;
    const format =
      httpMethod === "POST" ? this.#format(headers["content-type"]) : getFormat(method, httpMethod, target, headers);
    if (!format || !method.protocols[format.protocol]) return undefined;
    const hooks = this.#options;
    const refuse = (reason: unknown) => answerNow(format.refuse(asConnectError(reason)));
    try {
      const found = admitted(method.desc, format.protocolName, headers, hooks);
      if (found instanceof Promise) return found.then((late) => new UnaryRoute(method, format, late, hooks), refuse);
      return new UnaryRoute(method, format, found, hooks);
    } catch (reason) {
      return refuse(reason);
    }
  }

  /**
   * Calls a method as a request would, through the same interceptors.
   *
   * @throws TypeError when it is not routed; rejects with whatever the interceptors make of a failure
   */
  call<I extends DescMethodUnary>(
    desc: I,
    message: MessageShape<I["input"]>,
    init: LocalCall,
  ): Promise<{ readonly message: MessageShape<I["output"]>; readonly headers: HeaderRecord }> {
    const method = this.#byDesc.get(desc);
    if (!method) throw new TypeError(`${desc.name} is not routed`);
    const call = new UnaryCall({
      method,
      protocolName: init.protocolName,
      source: init.source,
      requestHeader: init.header,
      contextValues: init.contextValues,
      timeoutMs: undefined,
      responseHeader: {},
      responseTrailer: {},
    });
    return call.invoke(message).then(
      (output) => {
        call.end();
        return { message: output as MessageShape<I["output"]>, headers: recordOf(call.responseHeader) };
      },
      (error) => {
        call.end(error);
        throw error;
      },
    );
  }

  #format(contentType: HeaderRecord[string]): Format | undefined {
    if (typeof contentType !== "string") return undefined;
    const known = this.#formats.get(contentType);
    if (known) return known;
    const format = formatOf(contentType);
    // Strangers must not fill the table with types that are none.
    if (format && this.#formats.size < MAX_KNOWN_TYPES) this.#formats.set(contentType, format);
    return format;
  }
}

/** A call that was let in, and waits for its body. */
class UnaryRoute implements Route {
  readonly #method: UnaryMethod;
  readonly #format: Format;
  readonly #admitted: Admitted;
  readonly #hooks: Hooks;

  constructor(method: UnaryMethod, format: Format, admitted: Admitted, hooks: Hooks) {
    this.#method = method;
    this.#format = format;
    this.#admitted = admitted;
    this.#hooks = hooks;
  }

  isTooLong(head: Uint8Array, total: number): boolean {
    return this.#format.isTooLong(head, total, this.#method.options.readMaxBytes);
  }

  serve(request: WireRequest): Promise<WireResponse> {
    try {
      this.#admitted.begin();
    } catch (reason) {
      return Promise.resolve(this.#format.refuse(asConnectError(reason)));
    }
    return this.#format.serve(this.#method, request, this.#admitted, this.#hooks);
  }

  end(): void {
    this.#admitted.end();
  }
}

function formatOf(contentType: string): Format | undefined {
  const grpcType = parseGrpcType(contentType);
  if (grpcType) return grpcFormat({ web: false, text: false, binary: grpcType.binary });
  const webType = parseGrpcWebType(contentType);
  if (webType) return grpcFormat({ web: true, text: webType.text, binary: webType.binary });
  const connectType = parseConnectType(contentType);
  return connectType && !connectType.stream ? connectFormat(connectType.binary) : undefined;
}

function grpcFormat(type: GrpcType): Format {
  return {
    protocol: type.web ? "grpcWeb" : "grpc",
    protocolName: type.web ? "grpc-web" : "grpc",
    isTooLong: type.text ? exceedsText : exceedsEnvelope,
    serve: (method, request, admitted, hooks) => serveGrpc(method, request, type, admitted, hooks),
    refuse: (error) => refuseGrpc(type, error),
  };
}

function connectFormat(binary: boolean): Format {
  return {
    protocol: "connect",
    protocolName: "connect",
    isTooLong: (_head, total, maxBytes) => total > maxBytes,
    serve: (method, request, admitted, hooks) => serveConnect(method, request, binary, admitted, hooks),
    refuse: (error) => refuseConnect(error),
  };
}

/** Connect's GET, which only methods without side effects have; its message is in the query. */
function getFormat(method: UnaryMethod, httpMethod: string, target: string, headers: HeaderRecord): Format | undefined {
  if (httpMethod !== "GET" || method.desc.idempotency !== MethodOptions_IdempotencyLevel.NO_SIDE_EFFECTS)
    return undefined;
  if (headers["content-type"] !== undefined) return undefined;
  const encoding = new URL(target, "http://localhost").searchParams.get("encoding");
  if (encoding !== "proto" && encoding !== "json") return undefined;
  return connectFormat(encoding === "proto");
}
