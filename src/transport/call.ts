import { create, isMessage, type Message } from "@bufbuild/protobuf";
import {
  type ContextValues,
  createContextValues,
  type HandlerContext,
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
    const call = this;
    const { method, requestMethod, requestHeader } = this.#init;
    const { desc } = method;
    const terminal: AnyFn = async (req) => {
      const output = await method.impl(req.message as never, call.#context(req) as never);
      return {
        stream: false,
        service: desc.parent,
        method: desc,
        header: call.responseHeader,
        trailer: call.responseTrailer,
        message: isMessage(output, desc.output) ? output : create(desc.output, output as Record<string, unknown>),
      };
    };
    let next = terminal;
    for (let i = interceptors.length - 1; i >= 0; i--) next = (interceptors[i] as Interceptor)(next);
    const response = await next({
      stream: false,
      service: desc.parent,
      method: desc,
      requestMethod,
      header: requestHeader,
      contextValues: this.#values,
      message: input,
      get url() {
        return call.#init.url();
      },
      get signal() {
        return call.#signal();
      },
    } as UnaryRequest);
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

  #context(req: UnaryRequest | StreamRequest): HandlerContext {
    const call = this;
    const { method, protocolName, requestMethod } = this.#init;
    return {
      service: req.service,
      method: method.desc,
      requestMethod,
      protocolName,
      requestHeader: req.header,
      responseHeader: this.responseHeader,
      responseTrailer: this.responseTrailer,
      values: req.contextValues,
      timeoutMs: () => (call.#deadline === undefined ? undefined : call.#deadline - Date.now()),
      get url() {
        return call.#init.url();
      },
      get signal() {
        return req.signal;
      },
    } as HandlerContext;
  }

  #signal(): AbortSignal {
    if (this.#controller === undefined) {
      const left = this.#deadline === undefined ? undefined : this.#deadline - Date.now();
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

function copyHeaders(from: Headers, to: Headers): void {
  if (from === to) return;
  for (const name of [...to.keys()]) to.delete(name);
  from.forEach((value, name) => {
    to.append(name, value);
  });
}
