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
  /** The maximum number of unary calls in flight. Default: no limit. */
  readonly maxCalls?: number | undefined;
  /**
   * Methods that anyone may call. Their calls are always admitted, and not counted; and their bodies have little time to
   * arrive. Default: none.
   */
  readonly isOpen?: ((method: DescMethod) => boolean) | undefined;
  readonly onRefused?: OnRefused | undefined;
}

/** The unary calls in flight, and how many there may be. */
interface InFlight {
  readonly max: number;
  count: number;
}

function tooManyCalls({ max }: InFlight): Refusal {
  return { kind: "too-many-calls", limit: max };
}

/** Admits or denies calls by their headers alone. */
export class Admission {
  readonly #options: AdmissionOptions;
  readonly #inFlight: InFlight | undefined;

  constructor(options: AdmissionOptions) {
    this.#options = options;
    this.#inFlight = options.maxCalls === undefined ? undefined : { max: options.maxCalls, count: 0 };
  }

  /** Authorizes a call. Never rejects. */
  admit(
    method: DescMethod,
    protocolName: string,
    request: RequestHead,
  ): AdmittedCall | Refused | Promise<AdmittedCall | Refused> {
    const { authorize, contextValues: valuesOf, isOpen: isOpenMethod, onRefused } = this.#options;
    const { headers, arrived } = request;
    const header = new RecordHeaders(headers);
    const isOpen = isOpenMethod?.(method) === true;
    const inFlight = method.methodKind === "unary" && !isOpen ? this.#inFlight : undefined;
    // Before anything else: under overload most calls end here.
    if (inFlight && inFlight.count >= inFlight.max)
      return refuse(tooManyCalls(inFlight), { method, protocolName, header, arrived }, onRefused);
    const contextValues = valuesOf?.(protocolName) ?? createContextValues();
    const peerAddress = () => request.peerAddress();
    const head = { method, protocolName, header, peerAddress, arrived, contextValues };
    const call = new AdmittedCall(head, { isOpen, inFlight, onRefused });
    const deny = (error: unknown) => call.refuse({ kind: "unauthorized", error });
    try {
      const decision = authorize?.(head);
      if (decision === undefined) return call;
      // The call counts while it is being authorized: a slow authorization must not pile up requests.
      call.begin();
      return Promise.resolve(decision)
        .then(() => call, deny)
        .finally(() => call.end());
    } catch (error) {
      return deny(error);
    }
  }
}

/** An admitted call, whose body may now be read. */
export class AdmittedCall {
  readonly head: CallHead;
  /** Whether anyone may make it. */
  readonly isOpen: boolean;
  readonly #inFlight: InFlight | undefined;
  readonly #onRefused: OnRefused | undefined;
  #isCounted = false;

  constructor(
    head: CallHead,
    {
      isOpen,
      inFlight,
      onRefused,
    }: { isOpen: boolean; inFlight: InFlight | undefined; onRefused: OnRefused | undefined },
  ) {
    this.head = head;
    this.isOpen = isOpen;
    this.#inFlight = inFlight;
    this.#onRefused = onRefused;
  }

  /**
   * Starts the call. Call it when the body has arrived: only then does the call count as in flight, so that slow
   * uploads do not use up the limit. Returns why it is refused when too many calls are in flight.
   */
  begin(): Refused | undefined {
    const inFlight = this.#inFlight;
    if (!inFlight) return undefined;
    if (inFlight.count >= inFlight.max) return this.refuse(tooManyCalls(inFlight));
    inFlight.count++;
    this.#isCounted = true;
    return undefined;
  }

  /** Ends the call, answered or abandoned. Only the first call counts. */
  end(): void {
    if (this.#inFlight && this.#isCounted) this.#inFlight.count--;
    this.#isCounted = false;
  }

  /** Refuses the call. */
  refuse(refusal: Refusal): Refused {
    return refuse(refusal, this.head, this.#onRefused);
  }
}
