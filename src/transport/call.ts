import { create, type DescMethodUnary, type DescService, isMessage, type Message } from "@bufbuild/protobuf";
import {
  type ContextValues,
  createContextValues,
  type Interceptor,
  type StreamRequest,
  type StreamResponse,
  type UnaryRequest,
  type UnaryResponse,
} from "@connectrpc/connect";
import { createDeadlineSignal, createLinkedAbortController } from "@connectrpc/connect/protocol";
import { type HeaderRecord, LeanHeaders } from "./lean-headers.ts";
import type { UnaryMethod } from "./methods.ts";

/** The longest time that setTimeout can wait: nearly 25 days. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/** What one unary call is, whatever it came in as. */
export interface CallInit {
  readonly method: UnaryMethod;
  /** `grpc`, `grpc-web`, `connect`, or what else decoded it. */
  readonly protocolName: string;
  /** The HTTP method. */
  readonly requestMethod: string;
  readonly requestHeader: Headers;
  readonly contextValues?: ContextValues | undefined;
  /** The absolute URL; asked for only if somebody looks at it. */
  readonly url: () => string;
  /** Aborts when the caller is gone; asked for only if somebody listens. */
  readonly requestSignal: () => AbortSignal;
  /** From the caller's deadline header, in milliseconds. */
  readonly timeoutMs?: number | undefined;
  /** When the deadline began to run, in milliseconds of Unix time. Default: now. */
  readonly arrived?: number | undefined;
  /** What the answer's header and trailer hold at first. */
  readonly responseHeader: HeaderRecord;
  readonly responseTrailer: HeaderRecord;
}

/** The implementation at the end of the interceptors. */
type AnyFn = (req: UnaryRequest | StreamRequest) => Promise<UnaryResponse | StreamResponse>;

/**
 * One unary call on its way through the interceptors to the implementation and
 * back. It has all that Connect's handler context has; what few calls look at,
 * the signal, the deadline's timer, the URL, is made when it is looked at.
 */
export class UnaryCall {
  readonly #init: CallInit;
  readonly #values: ContextValues;
  readonly #deadline: number | undefined;
  readonly responseHeader: Headers;
  readonly responseTrailer: Headers;
  #controller: AbortController | undefined;
  #stopTimer: (() => void) | undefined;
  #ended: { readonly reason: unknown } | undefined;

  constructor(init: CallInit) {
    this.#init = init;
    this.#values = init.contextValues ?? createContextValues();
    this.#deadline = init.timeoutMs === undefined ? undefined : (init.arrived ?? Date.now()) + init.timeoutMs;
    this.responseHeader = new LeanHeaders(init.responseHeader, true);
    this.responseTrailer = new LeanHeaders(init.responseTrailer, true);
  }

  /**
   * Passes the message through the interceptors to the implementation.
   *
   * @throws whatever an interceptor or the implementation throws
   */
  async invoke(input: Message, interceptors: readonly Interceptor[]): Promise<Message> {
    const { method, protocolName, requestMethod, requestHeader } = this.#init;
    const { desc } = method;
    const terminal: AnyFn = async (req) => {
      const context = new CallContext(this, req, desc, requestMethod, protocolName);
      const output = await method.impl(req.message as never, context as never);
      return {
        stream: false,
        service: desc.parent,
        method: desc,
        header: this.responseHeader,
        trailer: this.responseTrailer,
        message: isMessage(output, desc.output) ? output : create(desc.output, output as Record<string, unknown>),
      };
    };
    let next: AnyFn = terminal;
    for (let i = interceptors.length - 1; i >= 0; i--) {
      const inner = next;
      next = (interceptors[i] as Interceptor)((req) => inner(whole(this, req)));
    }
    const request = new CallRequest(this, desc, requestMethod, requestHeader, this.#values, input);
    const response = await next(request as UnaryRequest);
    copyHeaders(response.header, this.responseHeader);
    copyHeaders(response.trailer, this.responseTrailer);
    return response.message as Message;
  }

  /** Ends the call: whoever listens to its signal is told, with the reason if it failed. */
  end(reason?: unknown): void {
    this.#ended ??= { reason };
    this.#stopTimer?.();
    this.#controller?.abort(reason);
  }

  /** The absolute URL of the request. */
  url(): string {
    return this.#init.url();
  }

  /** What is left until the caller's deadline, in milliseconds; undefined without one. */
  timeoutMs(): number | undefined {
    return this.#deadline === undefined ? undefined : this.#deadline - Date.now();
  }

  /** Aborts when the caller is gone, when the deadline has passed, and when the call has ended. */
  signal(): AbortSignal {
    if (this.#controller === undefined) {
      const left = this.timeoutMs();
      // Beyond this a timer would end at once; no call lives that long.
      const timer = createDeadlineSignal(left !== undefined && left > MAX_TIMER_MS ? undefined : left);
      this.#stopTimer = timer.cleanup;
      this.#controller = createLinkedAbortController(
        timer.signal,
        this.#init.requestSignal(),
        this.#init.method.options.shutdownSignal,
      );
      if (this.#ended) this.end(this.#ended.reason);
    }
    return this.#controller.signal;
  }
}

/*
 * What interceptors and implementations are given. These are classes because
 * an object literal with accessors takes as long to make as the rest of a call:
 * those of a prototype cost nothing until they are looked at.
 */

/** The request of a call. */
class CallRequest {
  readonly stream = false;
  readonly service: DescService;
  readonly method: DescMethodUnary;
  readonly requestMethod: string;
  readonly header: Headers;
  readonly contextValues: ContextValues;
  readonly message: Message;
  readonly #call: UnaryCall;

  constructor(
    call: UnaryCall,
    method: DescMethodUnary,
    requestMethod: string,
    header: Headers,
    contextValues: ContextValues,
    message: Message,
  ) {
    this.service = method.parent;
    this.method = method;
    this.requestMethod = requestMethod;
    this.header = header;
    this.contextValues = contextValues;
    this.message = message;
    this.#call = call;
  }

  get url(): string {
    return this.#call.url();
  }

  get signal(): AbortSignal {
    return this.#call.signal();
  }
}

/** A request as an interceptor passed it on: a copy of ours lacks what ours has from its prototype. */
function whole(call: UnaryCall, req: UnaryRequest | StreamRequest): UnaryRequest | StreamRequest {
  if (req instanceof CallRequest || ("url" in req && "signal" in req)) return req;
  const { url = call.url(), signal = call.signal() } = req as Partial<UnaryRequest>;
  return { ...(req as UnaryRequest), url, signal };
}

/** The handler context of a call. */
class CallContext {
  readonly service: DescService;
  readonly method: DescMethodUnary;
  readonly requestMethod: string;
  readonly protocolName: string;
  readonly requestHeader: Headers;
  readonly responseHeader: Headers;
  readonly responseTrailer: Headers;
  readonly values: ContextValues;
  /** As Connect's own it may be called without its object. */
  readonly timeoutMs: () => number | undefined;
  readonly #call: UnaryCall;
  readonly #request: UnaryRequest | StreamRequest;

  constructor(
    call: UnaryCall,
    request: UnaryRequest | StreamRequest,
    method: DescMethodUnary,
    requestMethod: string,
    protocolName: string,
  ) {
    this.service = request.service;
    this.method = method;
    this.requestMethod = requestMethod;
    this.protocolName = protocolName;
    this.requestHeader = request.header;
    this.responseHeader = call.responseHeader;
    this.responseTrailer = call.responseTrailer;
    this.values = request.contextValues;
    this.timeoutMs = () => call.timeoutMs();
    this.#call = call;
    this.#request = request;
  }

  get url(): string {
    return this.#call.url();
  }

  get signal(): AbortSignal {
    return this.#request.signal;
  }
}

function copyHeaders(from: Headers, to: Headers): void {
  if (from === to) return;
  for (const name of [...to.keys()]) to.delete(name);
  from.forEach((value, name) => {
    to.append(name, value);
  });
}
