import type { DescMethod } from "@bufbuild/protobuf";
import type { HeaderRecord, RequestHead } from "../http-types.ts";
import { Call, type CallGate, type CallHead, type CallInit, type ContextValuesOf } from "./call.ts";
import { CallQueue } from "./call-queue.ts";
import { connectProtocol } from "./connect.ts";
import { grpcProtocol } from "./grpc.ts";
import { headerValue } from "./headers.ts";
import {
  defaultError,
  type OnRefused,
  REFUSAL_STATUS,
  type Refusal,
  type Refused,
  type RefusedRequest,
} from "./refusals.ts";

/** Admits a call by its headers, before its body is read. To deny the call, throw or reject. */
export type Authorize = (call: CallHead) => void | Promise<void>;

export interface AdmissionOptions {
  /** Admits or denies each call. Default: admits all calls. */
  readonly authorize?: Authorize | undefined;
  /** Creates the initial context values of a call. Default: empty. */
  readonly contextValues?: ContextValuesOf | undefined;
  /** The queue of unary calls. Several ports may share a queue. Default: a queue that accepts any number of calls. */
  readonly queue?: CallQueue | undefined;
  /**
   * Returns whether clients may call a method without authentication. Calls of an open method never wait in the queue,
   * and do not count as in flight. Their bodies have less time to arrive (`openArrivalTimeoutMs`). Default: no method
   * is open.
   */
  readonly isOpen?: ((method: DescMethod) => boolean) | undefined;
  readonly onRefused?: OnRefused | undefined;
}

/** Admits or denies calls by their headers. If the process is busy, unary calls first wait in a queue. */
export class Admission implements CallGate {
  readonly #options: AdmissionOptions;
  readonly queue: CallQueue;
  readonly contextValues: ContextValuesOf | undefined;

  constructor(options: AdmissionOptions) {
    this.#options = options;
    this.queue = options.queue ?? new CallQueue();
    this.contextValues = options.contextValues;
  }

  /**
   * Waits until a call may begin, and then authorizes the call. Returns the error for the client if the call is
   * refused. Never rejects.
   */
  admit(method: DescMethod, protocolName: string, request: RequestHead): Call | Refused | Promise<Call | Refused> {
    const isOpen = this.#options.isOpen?.(method) === true;
    const isQueued = method.methodKind === "unary" && !isOpen;
    const call = { method, protocolName, request, isOpen, gate: this };
    if (!isQueued || this.queue.tryBegin()) return this.#authorize(call, isQueued);
    const { headers, arrived } = request;
    return this.queue.wait(request, timeoutOf(protocolName, headers)).then((cause) => {
      if (cause === undefined) return this.#authorize(call, true);
      const { retryAfterSeconds } = this.queue;
      const refusal: Refusal =
        cause === "deadline-exceeded" ? { kind: cause } : { kind: "overloaded", cause, retryAfterSeconds };
      return this.refuse(refusal, { method, protocolName, headers, arrived });
    });
  }

  #authorize(init: CallInit, isQueued: boolean): Call | Refused | Promise<Call | Refused> {
    const { queue } = this;
    const call = new Call(init);
    const deny = (error: unknown) => call.refuse({ kind: "unauthorized", error });
    try {
      const decision = this.#options.authorize?.(call);
      if (decision === undefined) return call;
      // Count the call as in flight during its authorization. The limit of the queue then applies even if authorization
      // is slow.
      if (isQueued) queue.inFlight++;
      return Promise.resolve(decision)
        .then(() => call, deny)
        .finally(() => {
          if (isQueued) queue.inFlight--;
        });
    } catch (error) {
      return deny(error);
    }
  }

  refuse(refusal: Refusal, request: RefusedRequest): Refused {
    const error = this.#options.onRefused?.(refusal, request) ?? defaultError(refusal);
    return { error, status: REFUSAL_STATUS[refusal.kind] };
  }
}

/** Returns the time until the deadline of a call, in milliseconds; undefined if the call has no valid deadline. */
function timeoutOf(protocolName: string, headers: HeaderRecord): number | undefined {
  const { timeoutHeader, parseTimeout } = protocolName.startsWith("grpc") ? grpcProtocol : connectProtocol;
  return parseTimeout(headerValue(headers, timeoutHeader), Number.POSITIVE_INFINITY).timeoutMs;
}
