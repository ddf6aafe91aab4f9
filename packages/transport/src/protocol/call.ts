import { create, type DescMethod, type DescService, isMessage, type Message } from "@bufbuild/protobuf";
import {
  type ContextValues,
  createContextValues,
  type HandlerContext,
  type Interceptor,
  type UnaryRequest,
  type UnaryResponse,
} from "@connectrpc/connect";
import { createDeadlineSignal, createLinkedAbortController } from "@connectrpc/connect/protocol";
import type { HeaderRecord, RequestHead } from "../http-types.ts";
import { MAX_TIMER_MS } from "../limits.ts";
import { RecordHeaders } from "./headers.ts";
import type { UnaryMethod } from "./methods.ts";
import type { Refusal, Refused, RefusedRequest } from "./refusals.ts";

/** The part of a call that is known before its body is read. Its methods use `this`, so call them on the object. */
export interface CallHead {
  readonly method: DescMethod;
  /** The protocol: `grpc`, `grpc-web`, `connect`, or the protocol name of an endpoint. */
  readonly protocolName: string;
  /** The headers of the request, by lower-case name. `headerValue` returns a header. */
  readonly headers: HeaderRecord;
  /** The time at which the request arrived, in milliseconds of Unix time. */
  readonly arrived: number;
  /** The context values of the call. Interceptors and handlers receive the values that `authorize` sets. */
  readonly contextValues: ContextValues;
  /** Returns the IP address of the peer; empty if the address is unknown. */
  peerAddress(): string;
}

/** Creates the initial context values of a call. */
export type ContextValuesOf = (call: Omit<CallHead, "contextValues">) => ContextValues;

export interface CallGate {
  readonly queue: { inFlight: number };
  readonly contextValues: ContextValuesOf | undefined;
  refuse(refusal: Refusal, request: RefusedRequest): Refused;
}

export interface CallInit {
  readonly method: DescMethod;
  readonly protocolName: string;
  readonly request: RequestHead;
  readonly isOpen: boolean;
  readonly gate: CallGate;
}

export class Call implements CallHead {
  readonly method: DescMethod;
  readonly protocolName: string;
  readonly headers: HeaderRecord;
  readonly contextValues: ContextValues;
  readonly isOpen: boolean;
  /** The response headers; undefined until `enter` is called. */
  responseHeader!: Headers;
  responseTrailer!: Headers;
  /** The first error with which the call failed; undefined if the call has not failed. */
  failure: unknown = undefined;
  readonly request: RequestHead;
  private readonly gate: CallGate;
  private unary: UnaryMethod | undefined = undefined;
  private deadline: number | undefined = undefined;
  private controller: AbortController | undefined = undefined;
  private stopTimer: (() => void) | undefined = undefined;
  private isOver = false;

  constructor({ method, protocolName, request, isOpen, gate }: CallInit) {
    this.method = method;
    this.protocolName = protocolName;
    this.headers = request.headers;
    this.isOpen = isOpen;
    this.request = request;
    this.gate = gate;
    this.contextValues = gate.contextValues?.(this) ?? createContextValues();
  }

  get arrived(): number {
    return this.request.arrived;
  }

  peerAddress(): string {
    return this.request.peerAddress();
  }

  /**
   * Prepares the call for `invoke`. If the method of the call is not open, counts the call as in flight. Call `enter`
   * when the body has arrived.
   *
   * @param method the method that `invoke` calls; undefined if the routes do not contain the RPC
   * @param header the initial response headers. The call modifies `header` and `trailer` in place
   */
  enter(method?: UnaryMethod, header: HeaderRecord = {}, trailer: HeaderRecord = {}): void {
    if (!this.isOpen) this.gate.queue.inFlight++;
    this.unary = method;
    this.responseHeader = new RecordHeaders(header, true);
    this.responseTrailer = new RecordHeaders(trailer, true);
  }

  /**
   * Ends the call. The call no longer counts as in flight, its timer stops, and its signal aborts. Call `leave` once
   * after each `enter`.
   */
  leave(): void {
    if (!this.isOpen) this.gate.queue.inFlight--;
    this.end();
  }

  refuse(refusal: Refusal): Refused {
    return this.gate.refuse(refusal, this);
  }

  /** Sets the deadline, in milliseconds after the arrival of the request. */
  expireAfter(timeoutMs: number): void {
    // Like Connect, round the nanoseconds of gRPC down to whole milliseconds.
    this.deadline = Math.trunc(this.arrived + timeoutMs);
  }

  async invoke(message: Message): Promise<Message> {
    const { unary } = this;
    if (!unary) throw new TypeError("the routes do not contain the RPC of the endpoint");
    unary.handler ??= intercepted(unary);
    try {
      const response = await unary.handler(new CallRequest(this, unary, message));
      // An interceptor may have replaced the headers or the trailers.
      if (response.header !== this.responseHeader) copyHeaders(response.header, this.responseHeader);
      if (response.trailer !== this.responseTrailer) copyHeaders(response.trailer, this.responseTrailer);
      return response.message as Message;
    } catch (failure) {
      this.fail(failure);
      throw failure;
    }
  }

  fail(failure: unknown): void {
    this.failure ??= failure;
    this.end();
  }

  private end(): void {
    this.isOver = true;
    this.stopTimer?.();
    this.controller?.abort(this.failure);
  }

  /** A signal that aborts when the client disconnects, the deadline passes, the server shuts down, or the call ends. */
  get signal(): AbortSignal {
    if (this.controller === undefined) {
      const left = this.timeLeft();
      // A timer beyond `MAX_TIMER_MS` would fire immediately. No call lasts that long, so set no timer.
      const timer = createDeadlineSignal(left !== undefined && left > MAX_TIMER_MS ? undefined : left);
      this.stopTimer = timer.cleanup;
      const { shutdownSignal } = this.unary?.options ?? {};
      this.controller = createLinkedAbortController(timer.signal, this.request.requestSignal(), shutdownSignal);
      if (this.isOver) this.end();
    }
    return this.controller.signal;
  }

  /** Returns the time until the client's deadline, in milliseconds; undefined if the client has set no deadline. */
  timeLeft(): number | undefined {
    return this.deadline === undefined ? undefined : this.deadline - Date.now();
  }
}

/**
 * The request of a unary call, for interceptors. `url` and `signal` are getters, because few calls need these values.
 */
class CallRequest implements Pick<UnaryRequest, keyof UnaryRequest> {
  readonly stream = false;
  readonly service: DescService;
  readonly method: UnaryRequest["method"];
  readonly requestMethod: string;
  readonly header: Headers;
  readonly contextValues: ContextValues;
  readonly message: Message;
  /** This property is not a getter, so a spread copy of the request also contains the call. */
  readonly call: Call;

  constructor(call: Call, { desc }: UnaryMethod, message: Message) {
    this.service = desc.parent;
    this.method = desc;
    this.requestMethod = call.request.httpMethod;
    this.header = new RecordHeaders(call.headers);
    this.contextValues = call.contextValues;
    this.message = message;
    this.call = call;
  }

  get url(): string {
    return this.call.request.url();
  }

  get signal(): AbortSignal {
    return this.call.signal;
  }
}

/**
 * The context that an implementation receives. Contains values of the request that the last interceptor has passed on.
 */
class CallHandlerContext implements HandlerContext {
  readonly method: UnaryRequest["method"];
  readonly protocolName: string;
  readonly responseHeader: Headers;
  readonly responseTrailer: Headers;
  // Private names (`#`) and closures would take 12 % more CPU for a gRPC call.
  private readonly call: Call;
  private readonly request: UnaryRequest;

  constructor(call: Call, request: UnaryRequest) {
    this.method = request.method;
    this.protocolName = call.protocolName;
    this.responseHeader = call.responseHeader;
    this.responseTrailer = call.responseTrailer;
    this.call = call;
    this.request = request;
  }

  /** Returns a function that does not use `this`, like the function of Connect's context. */
  get timeoutMs(): () => number | undefined {
    const { call } = this;
    return () => call.timeLeft();
  }

  get service(): DescService {
    return this.request.service;
  }

  get requestMethod(): string {
    return this.request.requestMethod;
  }

  get requestHeader(): Headers {
    return this.request.header;
  }

  get values(): ContextValues {
    return this.request.contextValues;
  }

  get url(): string {
    return this.request.url;
  }

  get signal(): AbortSignal {
    return this.request.signal;
  }
}

/** Wraps the interceptors around a method once for all calls. Wrapping them for each call would take 20 % more CPU. */
function intercepted({ desc, impl, options }: UnaryMethod): ReturnType<Interceptor> {
  const implement = async (req: CallRequest) => {
    const { call } = req;
    const context = new CallHandlerContext(call, req);
    const result = await impl(req.message as never, context as never);
    const message = isMessage(result, desc.output) ? result : create(desc.output, result as never);
    const { responseHeader: header, responseTrailer: trailer } = call;
    return { stream: false, service: req.service, method: req.method, header, trailer, message } as UnaryResponse;
  };
  return options.interceptors.reduceRight<ReturnType<Interceptor>>(
    (inner, interceptor) => interceptor((req) => inner(complete(req) as never)),
    implement as never,
  );
}

/**
 * Returns a `CallRequest` unchanged. If an interceptor has copied the `CallRequest` by spread syntax, adds `url` and
 * `signal` to the copy, because such a copy does not contain the values of getters.
 */
function complete(req: object): object {
  if (req instanceof CallRequest) return req;
  const { call } = req as Partial<CallRequest>;
  if (!call)
    throw new TypeError("an interceptor must pass on the request that it receives, or a spread copy of this request");
  // If an earlier interceptor copied the request, `complete` has already added `url` and `signal`.
  if ("url" in req && "signal" in req) return req;
  return { url: call.request.url(), signal: call.signal, ...req };
}

function copyHeaders(from: Headers, to: Headers): void {
  for (const name of [...to.keys()]) to.delete(name);
  from.forEach((value, name) => {
    to.append(name, value);
  });
}
