import type { DescMethod } from "@bufbuild/protobuf";
import type { RequestHead } from "../http-types.ts";
import { Call, type CallGate, type CallHead, type ContextValuesOf } from "./call.ts";
import { type OnRefused, type Refusal, type Refused, type RefusedRequest, refuse } from "./refusals.ts";

/**
 * Admits a call by its headers alone. To deny it, throw or reject. The body of a denied call is neither read nor
 * decompressed nor decoded.
 */
export type Authorize = (call: CallHead) => void | Promise<void>;

/** Options for the admission of calls. */
export interface AdmissionOptions {
  /** Default: all calls are admitted. */
  readonly authorize?: Authorize | undefined;
  /** Creates the initial context values of a call. Default: empty. */
  readonly contextValues?: ContextValuesOf | undefined;
  /** The maximum number of unary calls in flight. Default: no limit. */
  readonly maxCalls?: number | undefined;
  /**
   * Methods that anyone may call. Their calls are always admitted and not counted, and their bodies have less time to
   * arrive. Default: none.
   */
  readonly isOpen?: ((method: DescMethod) => boolean) | undefined;
  readonly onRefused?: OnRefused | undefined;
}

/**
 * Admits or denies calls by their headers, and counts the unary calls in flight.
 *
 * The limit is checked twice. `admit` checks it before anything is created for the request, because most requests of an
 * overload end there. `Call.enter` checks and counts when the body has arrived, so that slow bodies occupy no place.
 */
export class Admission implements CallGate {
  readonly #options: AdmissionOptions;
  inFlight = 0;
  readonly max: number;
  readonly contextValues: ContextValuesOf | undefined;
  /** The served methods that anyone may call. */
  readonly openMethods = new Set<DescMethod>();

  constructor(options: AdmissionOptions) {
    this.#options = options;
    this.max = options.maxCalls ?? Number.POSITIVE_INFINITY;
    this.contextValues = options.contextValues;
  }

  /** Authorizes a call. Never rejects. */
  admit(method: DescMethod, protocolName: string, request: RequestHead): Call | Refused | Promise<Call | Refused> {
    const { authorize } = this.#options;
    const isOpen = this.openMethods.has(method);
    const isLimited = method.methodKind === "unary" && !isOpen;
    if (isLimited && this.inFlight >= this.max) {
      const { headers, arrived } = request;
      return this.refuse({ kind: "too-many-calls", maxCalls: this.max }, { method, protocolName, headers, arrived });
    }
    const call = new Call({ method, protocolName, request, isOpen, gate: this });
    const deny = (error: unknown) => call.refuse({ kind: "unauthorized", error });
    try {
      const decision = authorize?.(call);
      if (decision === undefined) return call;
      // The call counts while it is being authorized: a slow authorization must not pile up requests.
      if (isLimited) this.inFlight++;
      return Promise.resolve(decision)
        .then(() => call, deny)
        .finally(() => {
          if (isLimited) this.inFlight--;
        });
    } catch (error) {
      return deny(error);
    }
  }

  refuse(refusal: Refusal, request: RefusedRequest): Refused {
    return refuse(refusal, request, this.#options.onRefused);
  }
}
