import type { DescMethod } from "@bufbuild/protobuf";
import { type ContextValues, createContextValues } from "@connectrpc/connect";
import type { RequestHead } from "../http-types.ts";
import { Call } from "./call.ts";
import { RecordHeaders } from "./headers.ts";
import { type OnRefused, type Refusal, type Refused, type RefusedRequest, refuse } from "./refusals.ts";

/** What the headers tell about a call, before its body is read. Call its methods on the object. */
export interface CallHead {
  readonly method: DescMethod;
  /** `grpc`, `grpc-web`, `connect`, or the protocol name of an endpoint. */
  readonly protocolName: string;
  readonly header: Headers;
  /** When the request arrived, in milliseconds of Unix time. */
  readonly arrived: number;
  /** The context values of the call. What authorization stores here is available to interceptors and handlers. */
  readonly contextValues: ContextValues;
  /** The IP address that the request came from; empty when it is not known. */
  peerAddress(): string;
}

/**
 * Admits a call by its headers alone. To deny it, throw or reject. The body of a denied call is neither read nor
 * decompressed nor decoded.
 */
export type Authorize = (call: CallHead) => void | Promise<void>;

/** How calls are admitted. */
export interface AdmissionOptions {
  /** Default: all calls are admitted. */
  readonly authorize?: Authorize | undefined;
  /** Makes the initial context values of a call. Default: empty. */
  readonly contextValues?: ((protocolName: string) => ContextValues) | undefined;
  /** The maximum number of unary calls in flight. Default: no limit. */
  readonly maxCalls?: number | undefined;
  /**
   * Methods that anyone may call. Their calls are always admitted, and not counted; and their bodies have little time to
   * arrive. Default: none.
   */
  readonly isOpen?: ((method: DescMethod) => boolean) | undefined;
  readonly onRefused?: OnRefused | undefined;
}

/**
 * Admits or denies calls by their headers alone, and counts those in flight.
 *
 * Whether there is a place is asked twice. `admit` asks by the headers, before anything is made of the request: under
 * overload most end there. But it takes no place, for bodies may take long to arrive, and a few clients with slow ones
 * would take all places. `Call.enter` takes it when the body is there, if there still is one.
 */
export class Admission {
  readonly #options: AdmissionOptions;
  /** How many unary calls are in flight. */
  inFlight = 0;
  /** How many may be. */
  readonly max: number;
  /** The methods that are served and that anyone may call. */
  readonly openMethods = new Set<DescMethod>();

  constructor(options: AdmissionOptions) {
    this.#options = options;
    this.max = options.maxCalls ?? Number.POSITIVE_INFINITY;
  }

  /** Authorizes a call. Never rejects. */
  admit(method: DescMethod, protocolName: string, request: RequestHead): Call | Refused | Promise<Call | Refused> {
    const { authorize, contextValues: valuesOf } = this.#options;
    const isOpen = this.openMethods.has(method);
    const isLimited = method.methodKind === "unary" && !isOpen;
    if (isLimited && this.inFlight >= this.max) {
      const { headers, arrived } = request;
      return this.refuseExcess({ method, protocolName, header: new RecordHeaders(headers), arrived });
    }
    const contextValues = valuesOf?.(protocolName) ?? createContextValues();
    const call = new Call({ method, protocolName, request, contextValues, isOpen, admission: this });
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

  /** Refuses a request because as many calls are in flight as may be. */
  refuseExcess(request: RefusedRequest): Refused {
    return this.refuse({ kind: "too-many-calls", maxCalls: this.max }, request);
  }

  refuse(refusal: Refusal, request: RefusedRequest): Refused {
    return refuse(refusal, request, this.#options.onRefused);
  }
}
