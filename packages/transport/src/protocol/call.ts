import { create, type DescMethodUnary, type DescService, isMessage, type Message } from "@bufbuild/protobuf";
import type {
  ContextValues,
  HandlerContext,
  Interceptor,
  StreamRequest,
  StreamResponse,
  UnaryRequest,
  UnaryResponse,
} from "@connectrpc/connect";
import { createDeadlineSignal, createLinkedAbortController } from "@connectrpc/connect/protocol";
import type { HeaderRecord, RequestHead } from "../exchange.ts";
import { MAX_TIMER_MS } from "../limits.ts";
import type { CallHead } from "./admission.ts";
import type { UnaryMethod } from "./methods.ts";
import { RecordHeaders } from "./record-headers.ts";

/** The parts of a unary call, whatever its protocol. */
interface CallInit {
  readonly method: UnaryMethod;
  readonly request: RequestHead;
  readonly head: Pick<CallHead, "protocolName" | "header" | "contextValues">;
  /** From the client's deadline header, in milliseconds. */
  readonly timeoutMs: number | undefined;
  /** The initial headers and trailers of the response. */
  readonly responseHeader: HeaderRecord;
  readonly responseTrailer: HeaderRecord;
}

/** A function that interceptors wrap, or that they make of it. */
export type CallHandler = (req: UnaryRequest | StreamRequest) => Promise<UnaryResponse | StreamResponse>;

/**
 * Wraps interceptors around the implementation of a method, once for all of its calls. What one of them passes on must
 * be the request that it was given, or a spread copy of it.
 */
export function intercepted(interceptors: readonly Interceptor[]): CallHandler {
  let handler: CallHandler = (req) => callOf(req).implement(req);
  for (const interceptor of interceptors.toReversed()) {
    const next = handler;
    handler = interceptor((req) => next((req as unknown) instanceof UnaryCall ? req : callOf(req).complete(req)));
  }
  return handler;
}

/** The call of a request that passes the interceptors. */
function callOf(req: UnaryRequest | StreamRequest): UnaryCall {
  const { call } = req as unknown as { readonly call?: UnaryCall };
  if (!call) throw new TypeError("an interceptor must pass on the request that it was given, or a spread copy of it");
  return call;
}

/**
 * One unary call. The same object serves as the interceptors' request and as the handler's context, so each has
 * properties that in Connect only the other has. Values that few calls use (signal, deadline timer, URL) are created on
 * first access. Their getters are on the prototype: they cost nothing until used, but a spread copy of the object lacks
 * them.
 */
export class UnaryCall {
  readonly stream = false;
  /** Tells of a spread copy which call it is of. */
  readonly call: UnaryCall = this;
  readonly service: DescService;
  readonly method: DescMethodUnary;
  readonly requestMethod: string;
  readonly protocolName: string;
  readonly header: Headers;
  readonly contextValues: ContextValues;
  message: Message | undefined;
  readonly responseHeader: Headers;
  readonly responseTrailer: Headers;
  readonly #method: UnaryMethod;
  readonly #request: RequestHead;
  readonly #deadline: number | undefined;
  #controller: AbortController | undefined;
  #stopTimer: (() => void) | undefined;
  #ended: { readonly reason: unknown } | undefined;

  constructor(init: CallInit) {
    const { method, request, head, timeoutMs } = init;
    this.service = method.desc.parent;
    this.method = method.desc;
    this.requestMethod = request.httpMethod;
    this.protocolName = head.protocolName;
    this.header = head.header;
    this.contextValues = head.contextValues;
    this.message = undefined;
    this.responseHeader = new RecordHeaders(init.responseHeader, true);
    this.responseTrailer = new RecordHeaders(init.responseTrailer, true);
    this.#method = method;
    this.#request = request;
    // gRPC deadlines have nanosecond resolution. Connect's context exposes whole milliseconds, and handlers rely on
    // that.
    this.#deadline = timeoutMs === undefined ? undefined : Math.trunc(request.arrived + timeoutMs);
  }

  /** Passes the message through the interceptors to the implementation. Rejects with whatever one of them throws. */
  invoke(input: Message): Promise<Message> {
    this.message = input;
    try {
      const response = this.#method.handler(this as unknown as UnaryRequest);
      return Promise.resolve(response).then((response) => this.#unwrap(response));
    } catch (reason) {
      return Promise.reject(reason);
    }
  }

  /** Ends the call: stops its timer and aborts its signal, with the reason if it failed. */
  end(reason?: unknown): void {
    this.#ended ??= { reason };
    this.#stopTimer?.();
    this.#controller?.abort(reason);
  }

  /** The absolute URL of the request. */
  get url(): string {
    return this.#request.url();
  }

  /** Aborts when the client disconnects, when the deadline passes, and when the call has ended. */
  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      const left = this.#timeLeft();
      // A longer timer would fire at once. No call lives that long.
      const timer = createDeadlineSignal(left !== undefined && left > MAX_TIMER_MS ? undefined : left);
      this.#stopTimer = timer.cleanup;
      this.#controller = createLinkedAbortController(
        timer.signal,
        this.#request.requestSignal(),
        this.#method.options.shutdownSignal,
      );
      if (this.#ended) this.end(this.#ended.reason);
    }
    return this.#controller.signal;
  }

  /** When the request arrived, in milliseconds of Unix time. */
  get arrived(): number {
    return this.#request.arrived;
  }

  get requestHeader(): Headers {
    return this.header;
  }

  get values(): ContextValues {
    return this.contextValues;
  }

  /**
   * A function that returns the time until the client's deadline, in milliseconds; undefined without a deadline. It
   * works detached from the object.
   */
  get timeoutMs(): () => number | undefined {
    return () => this.#timeLeft();
  }

  #timeLeft(): number | undefined {
    return this.#deadline === undefined ? undefined : this.#deadline - Date.now();
  }

  /**
   * Completes a request that an interceptor passed on: a spread copy of this object lacks the getters of the prototype.
   */
  complete(req: UnaryRequest | StreamRequest): UnaryRequest | StreamRequest {
    if ("url" in req && "signal" in req) return req;
    const { url = this.url, signal = this.signal } = req as Partial<UnaryRequest>;
    return { ...(req as UnaryRequest), url, signal };
  }

  /** Calls the implementation with a request that has passed the interceptors. Rejects when it fails. */
  implement(req: UnaryRequest | StreamRequest): Promise<UnaryResponse> {
    try {
      const context = (req as unknown) === this ? this : this.#contextOf(req);
      const output = this.#method.impl(req.message as never, context as never);
      return Promise.resolve(output).then((message) => new CallResponse(this, message));
    } catch (reason) {
      // Interceptors expect a rejected promise here, not an exception.
      return Promise.reject(reason);
    }
  }

  /** The handler context for a request object that an interceptor replaced. */
  #contextOf(req: UnaryRequest | StreamRequest): HandlerContext {
    const { service, header, contextValues, signal } = req;
    const { method, requestMethod, protocolName, url, responseHeader, responseTrailer, timeoutMs } = this;
    const own = { method, requestMethod, protocolName, url, responseHeader, responseTrailer, timeoutMs };
    return { ...own, service, requestHeader: header, values: contextValues, signal };
  }

  #unwrap(response: UnaryResponse | StreamResponse): Message {
    copyHeaders(response.header, this.responseHeader);
    copyHeaders(response.trailer, this.responseTrailer);
    return response.message as Message;
  }
}

/** The response of the implementation, as interceptors see it. */
class CallResponse implements UnaryResponse {
  readonly stream = false;
  readonly service: DescService;
  readonly method: DescMethodUnary;
  readonly header: Headers;
  readonly trailer: Headers;
  readonly message: Message;

  constructor({ service, method, responseHeader, responseTrailer }: UnaryCall, output: unknown) {
    this.service = service;
    this.method = method;
    this.header = responseHeader;
    this.trailer = responseTrailer;
    this.message = isMessage(output, method.output)
      ? output
      : create(method.output, output as { readonly [field: string]: unknown });
  }
}

function copyHeaders(from: Headers, to: Headers): void {
  if (from === to) return;
  for (const name of [...to.keys()]) to.delete(name);
  from.forEach((value, name) => {
    to.append(name, value);
  });
}
