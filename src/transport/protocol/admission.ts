import type { DescMethod } from "@bufbuild/protobuf";
import { type ContextValues, createContextValues } from "@connectrpc/connect";
import type { RequestHead } from "../exchange.ts";
import { RecordHeaders } from "./record-headers.ts";
import { type OnRefused, type Refusal, type Refused, refuse } from "./refusals.ts";

/** What the headers tell about a call, before its body is read. */
export interface CallHead {
  readonly method: DescMethod;
  /** `grpc`, `grpc-web`, `connect`, or the protocol name of an endpoint. */
  readonly protocolName: string;
  readonly header: Headers;
  /** The IP address that the request came from; empty when it is not known. */
  readonly peerAddress: () => string;
  /** When the request arrived, in milliseconds of Unix time. */
  readonly arrived: number;
  /** The context values of the call. What authorization stores here is available to interceptors and handlers. */
  readonly contextValues: ContextValues;
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
  /** Limits the unary calls in flight. Default: no limit. */
  readonly maxCalls?: CallLimit | undefined;
  readonly onRefused?: OnRefused | undefined;
}

/** The maximum number of unary calls in flight. */
export interface CallLimit {
  readonly max: number;
  /** Methods whose calls are always admitted, and not counted. Default: none. */
  readonly isExempt?: (method: DescMethod) => boolean;
}

/** Admits or denies calls by their headers alone. */
export class Admission {
  readonly #options: AdmissionOptions;
  readonly #inFlight: InFlightLimit | undefined;

  constructor(options: AdmissionOptions) {
    this.#options = options;
    this.#inFlight = options.maxCalls && new InFlightLimit(options.maxCalls);
  }

  /** Authorizes a call. Never rejects. */
  admit(
    method: DescMethod,
    protocolName: string,
    request: RequestHead,
  ): AdmittedCall | Refused | Promise<AdmittedCall | Refused> {
    const { authorize, contextValues: valuesOf, onRefused } = this.#options;
    const inFlight = method.methodKind === "unary" && !this.#inFlight?.isExempt(method) ? this.#inFlight : undefined;
    const contextValues = valuesOf?.(protocolName) ?? createContextValues();
    const { headers, arrived } = request;
    const peerAddress = () => request.peerAddress();
    const head = { method, protocolName, header: new RecordHeaders(headers), peerAddress, arrived, contextValues };
    const call = new AdmittedCall(head, inFlight, onRefused);
    if (inFlight?.isFull) return call.refuse(inFlight.refusal);
    const deny = (error: unknown) => call.refuse({ kind: "unauthorized", error });
    try {
      const decision = authorize?.(head);
      if (decision === undefined) return call;
      // Pending decisions count too: a slow authorization must not pile up requests. The place is free, as seen above.
      call.begin();
      return Promise.resolve(decision).then(
        () => {
          call.end();
          return call;
        },
        (error) => {
          call.end();
          return deny(error);
        },
      );
    } catch (error) {
      return deny(error);
    }
  }
}

/** An admitted call, whose body may now be read. */
export class AdmittedCall {
  readonly head: CallHead;
  readonly #inFlight: InFlightLimit | undefined;
  readonly #onRefused: OnRefused | undefined;
  #isCounted = false;

  constructor(head: CallHead, inFlight: InFlightLimit | undefined, onRefused: OnRefused | undefined) {
    this.head = head;
    this.#inFlight = inFlight;
    this.#onRefused = onRefused;
  }

  /**
   * Starts the call. Call it when the body has arrived: only then does the call count as in flight, so that slow
   * uploads do not use up the limit. Returns why it is refused when too many calls are in flight.
   */
  begin(): Refused | undefined {
    if (this.#inFlight && !this.#inFlight.tryAcquire()) return this.refuse(this.#inFlight.refusal);
    this.#isCounted = true;
    return undefined;
  }

  /** Ends the call, answered or abandoned. Only the first call counts. */
  end(): void {
    if (this.#isCounted) this.#inFlight?.release();
    this.#isCounted = false;
  }

  /** Refuses the call. */
  refuse(refusal: Refusal): Refused {
    return refuse(refusal, this.head, this.#onRefused);
  }
}

/** Counts calls in flight. */
class InFlightLimit {
  readonly isExempt: (method: DescMethod) => boolean;
  readonly refusal: Refusal;
  readonly #max: number;
  #count = 0;

  constructor({ max, isExempt }: CallLimit) {
    this.#max = max;
    this.isExempt = isExempt ?? (() => false);
    this.refusal = { kind: "too-many-calls", limit: max };
  }

  get isFull(): boolean {
    return this.#count >= this.#max;
  }

  tryAcquire(): boolean {
    if (this.isFull) return false;
    this.#count++;
    return true;
  }

  release(): void {
    this.#count--;
  }
}
