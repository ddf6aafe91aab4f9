import { create, type DescMethod, type DescService, isMessage, type Message } from "@bufbuild/protobuf";
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
import type { HeaderRecord, RequestHead } from "../http-types.ts";
import { MAX_TIMER_MS } from "../limits.ts";
import type { Admission, CallHead } from "./admission.ts";
import { RecordHeaders } from "./headers.ts";
import type { UnaryMethod } from "./methods.ts";
import type { Refusal, Refused } from "./refusals.ts";

/** What is known of a call by its headers. */
interface CallInit {
  readonly method: DescMethod;
  readonly protocolName: string;
  readonly request: RequestHead;
  readonly contextValues: ContextValues;
  readonly isOpen: boolean;
  readonly admission: Admission;
}

/**
 * One call, from its admission to its end. The same object serves authorization, and as the interceptors' request and
 * the handler's context of a unary call, so each has properties that in Connect only another has. Values that few calls
 * use (signal, deadline timer, URL) are created on first access. Their getters are on the prototype: they cost nothing
 * until used, but a spread copy of the object lacks them.
 */
export class Call implements CallHead {
  readonly stream = false;
  /** Leads from a spread copy to the call that was copied. */
  readonly call: Call = this;
  readonly service: DescService;
  readonly method: DescMethod;
  readonly requestMethod: string;
  readonly protocolName: string;
  readonly header: Headers;
  readonly contextValues: ContextValues;
  readonly values: ContextValues;
  message: Message | undefined = undefined;
  /** Set by `enter`, like the trailers. */
  responseHeader!: RecordHeaders;
  responseTrailer!: RecordHeaders;
  /** What the last `invoke` rejected with. */
  failure: unknown = undefined;
  /** Whether anyone may make this call. */
  readonly isOpen: boolean;
  private readonly request: RequestHead;
  private readonly admission: Admission;
  private isCounted = false;
  private unary: UnaryMethod | undefined = undefined;
  private deadline: number | undefined = undefined;
  private controller: AbortController | undefined = undefined;
  private stopTimer: (() => void) | undefined = undefined;
  private isOver = false;

  constructor({ method, protocolName, request, contextValues, isOpen, admission }: CallInit) {
    this.service = method.parent;
    this.method = method;
    this.requestMethod = request.httpMethod;
    this.protocolName = protocolName;
    this.header = new RecordHeaders(request.headers);
    this.contextValues = contextValues;
    this.values = contextValues;
    this.isOpen = isOpen;
    this.request = request;
    this.admission = admission;
  }

  peerAddress(): string {
    return this.request.peerAddress();
  }

  /**
   * Counts the call among those in flight, unless anyone may make it, and prepares it for `invoke`. Call it when the body
   * has arrived.
   *
   * @param method whose calls are served by `invoke`; undefined: the RPC is not served
   * @param header the initial headers of the response
   * @param trailer the initial trailers
   * @returns why it is refused when too many calls are in flight
   */
  enter(method?: UnaryMethod, header: HeaderRecord = {}, trailer: HeaderRecord = {}): Refused | undefined {
    if (!this.isOpen) {
      const admission = this.admission;
      if (admission.inFlight >= admission.max) return admission.refuseExcess(this);
      admission.inFlight++;
      this.isCounted = true;
    }
    this.unary = method;
    this.responseHeader = new RecordHeaders(header, true);
    this.responseTrailer = new RecordHeaders(trailer, true);
    return undefined;
  }

  /**
   * Ends a call that is answered or abandoned: it counts no longer, its timer stops, and its signal aborts unless the
   * call had failed. Only the first time has an effect.
   */
  leave(): void {
    if (this.isCounted) this.admission.inFlight--;
    this.isCounted = false;
    this.isOver = true;
    if (this.controller) this.stop();
  }

  refuse(refusal: Refusal): Refused {
    return this.admission.refuse(refusal, this);
  }

  /** Sets the deadline: the signal aborts so many milliseconds after the request arrived. */
  expireAfter(timeoutMs: number): void {
    // gRPC deadlines have nanosecond resolution. Connect's context exposes whole milliseconds, and handlers rely on
    // that.
    this.deadline = Math.trunc(this.arrived + timeoutMs);
  }

  /**
   * Passes the message through the interceptors to the implementation. May be called again once the call before has
   * ended. Rejects with whatever one of them throws.
   */
  async invoke(input: Message): Promise<Message> {
    if (!this.unary) throw new TypeError("the endpoint names no RPC that is served");
    if (this.message) this.reset();
    this.message = input;
    try {
      const response = await this.unary.handler(this as unknown as UnaryRequest);
      if (response.header !== this.responseHeader) copyHeaders(response.header, this.responseHeader);
      if (response.trailer !== this.responseTrailer) copyHeaders(response.trailer, this.responseTrailer);
      return response.message as Message;
    } catch (failure) {
      this.failure = failure;
      this.fail(failure);
      throw failure;
    }
  }

  /** Resets what an earlier `invoke` of the same request left, for an endpoint that makes several. */
  private reset(): void {
    this.stop();
    this.failure = undefined;
    this.isOver = false;
    this.controller = undefined;
    this.responseHeader = new RecordHeaders({}, true);
    this.responseTrailer = new RecordHeaders({}, true);
  }

  /** Ends the call because it failed: stops its timer and aborts its signal. */
  fail(failure: unknown): void {
    this.isOver = true;
    this.failure ??= failure;
    this.stop();
  }

  private stop(): void {
    this.stopTimer?.();
    this.controller?.abort(this.failure);
  }

  /** The absolute URL of the request. */
  get url(): string {
    return this.request.url();
  }

  /** Aborts when the client disconnects, when the deadline passes, and when the call has ended. */
  get signal(): AbortSignal {
    if (this.controller === undefined) {
      const left = this.timeLeft();
      // A longer timer would fire at once. No call lives that long.
      const timer = createDeadlineSignal(left !== undefined && left > MAX_TIMER_MS ? undefined : left);
      this.stopTimer = timer.cleanup;
      const shutdownSignal = this.unary?.options.shutdownSignal;
      this.controller = createLinkedAbortController(timer.signal, this.request.requestSignal(), shutdownSignal);
      if (this.isOver) this.stop();
    }
    return this.controller.signal;
  }

  /** When the request arrived, in milliseconds of Unix time. */
  get arrived(): number {
    return this.request.arrived;
  }

  get requestHeader(): Headers {
    return this.header;
  }

  /**
   * A function that returns the time until the client's deadline, in milliseconds; undefined without a deadline. It
   * works detached from the object.
   */
  get timeoutMs(): () => number | undefined {
    return () => this.timeLeft();
  }

  private timeLeft(): number | undefined {
    return this.deadline === undefined ? undefined : this.deadline - Date.now();
  }
}

/** A handler of calls: the implementation, or interceptors around it. */
export type CallHandler = (req: UnaryRequest | StreamRequest) => Promise<UnaryResponse | StreamResponse>;

/**
 * Wraps interceptors around the implementation of a method, once for all of its calls. What one of them passes on must
 * be the request that it was given, or a spread copy of it.
 */
export function intercepted(impl: UnaryMethod["impl"], interceptors: readonly Interceptor[]): CallHandler {
  const implement: CallHandler = async (req) => {
    const context = req instanceof Call ? req : contextOf(req);
    const { service, method, responseHeader: header, responseTrailer: trailer } = context.call;
    const output = await impl(req.message as never, context as never);
    const message = isMessage(output, method.output) ? output : create(method.output, output as never);
    return { stream: false, service, method, header, trailer, message } as UnaryResponse;
  };
  return interceptors.reduceRight<CallHandler>(
    (inner, interceptor) => interceptor(inner === implement ? inner : (req) => inner(complete(req))),
    implement,
  );
}

/** The call of a request that passes the interceptors. */
function originalCall(req: UnaryRequest | StreamRequest): Call {
  const { call } = req as unknown as { readonly call?: Call };
  if (!call) throw new TypeError("an interceptor must pass on the request that it was given, or a spread copy of it");
  return call;
}

/** Completes a request that an interceptor passed on: a spread copy of a call lacks the getters of the prototype. */
function complete(req: UnaryRequest | StreamRequest): UnaryRequest | StreamRequest {
  if ("url" in req && "signal" in req) return req;
  const call = originalCall(req);
  const { url = call.url, signal = call.signal } = req as Partial<UnaryRequest>;
  return { ...(req as UnaryRequest), url, signal };
}

/** The handler's context where an interceptor replaced the request; else it is the call itself. */
function contextOf(req: UnaryRequest | StreamRequest): HandlerContext & Pick<Call, "call"> {
  const call = originalCall(req);
  const { service, header, contextValues, signal } = complete(req);
  const { requestMethod, protocolName, url, responseHeader, responseTrailer, timeoutMs } = call;
  const own = {
    call,
    method: call.method,
    requestMethod,
    protocolName,
    url,
    responseHeader,
    responseTrailer,
    timeoutMs,
  };
  return { ...own, service, requestHeader: header, values: contextValues, signal };
}

function copyHeaders(from: Headers, to: Headers): void {
  for (const name of [...to.keys()]) to.delete(name);
  from.forEach((value, name) => {
    to.append(name, value);
  });
}
