import type { DescMethod } from "@bufbuild/protobuf";
import { type ConnectError, type ContextValues, createContextValues } from "@connectrpc/connect";
import type { HeaderRecord } from "../exchange.ts";
import { RecordHeaders } from "./record-headers.ts";
import { defaultError, type OnRefused, type Refusal } from "./refusals.ts";

/** A call as its header tells of it, before its body is read. */
export interface CallHead {
  readonly method: DescMethod;
  /** `grpc`, `grpc-web`, `connect`, or that of an endpoint. */
  readonly protocolName: string;
  readonly header: Headers;
  /** Those of the call, if it is let in: what is found out here need not be found out again. */
  readonly contextValues: ContextValues;
}

/**
 * Lets a call in by its header alone, or refuses it: throws or rejects. Nothing is read, inflated or decoded of the body
 * of a call that is refused.
 */
export type Authorize = (call: CallHead) => void | Promise<void>;

/** What decides on calls, and the context values that they begin with. */
export interface AdmissionOptions {
  /** Default: all calls are let in. */
  readonly authorize?: Authorize | undefined;
  /** The context values of a call. Default: none. */
  readonly contextValues?: ((protocolName: string) => ContextValues) | undefined;
  /** Bounds the unary calls that are under way. Default: any number. */
  readonly maxCalls?: CallLimit | undefined;
  readonly onRefused?: OnRefused | undefined;
}

/** How many unary calls may be under way at once. */
export interface CallLimit {
  readonly max: number;
  /** Methods whose calls are always let in, and not counted. Default: none. */
  readonly isExempt?: (method: DescMethod) => boolean;
}

/** Decides on calls by their header alone. */
export class Admission {
  readonly #options: AdmissionOptions;
  readonly #places: Places | undefined;

  constructor(options: AdmissionOptions) {
    this.#options = options;
    this.#places = options.maxCalls && new Places(options.maxCalls);
  }

  /** Asks whether a call may come in. Throws or rejects with the ConnectError that its caller is told. */
  admit(method: DescMethod, protocolName: string, headers: HeaderRecord): Admitted | Promise<Admitted> {
    const { authorize, contextValues: valuesOf, onRefused } = this.#options;
    const places = method.methodKind === "unary" && !this.#places?.isExempt(method) ? this.#places : undefined;
    const contextValues = valuesOf?.(protocolName) ?? createContextValues();
    const head = { method, protocolName, header: new RecordHeaders(headers), contextValues };
    const call = new Admitted(head, places, onRefused);
    if (places?.isFull) throw call.refuse(places.refusal);
    const refuse = (error: unknown): never => {
      throw call.refuse({ kind: "unauthorized", error });
    };
    try {
      const decision = authorize?.(head);
      return decision instanceof Promise ? decision.then(() => call, refuse) : call;
    } catch (error) {
      return refuse(error);
    }
  }
}

/** A call that was let in. */
export class Admitted {
  readonly protocolName: string;
  readonly header: Headers;
  readonly contextValues: ContextValues;
  readonly #head: CallHead;
  readonly #places: Places | undefined;
  readonly #onRefused: OnRefused | undefined;
  readonly #arrived = Date.now();
  #isUnderWay = false;

  constructor(head: CallHead, places: Places | undefined, onRefused: OnRefused | undefined) {
    this.protocolName = head.protocolName;
    this.header = head.header;
    this.contextValues = head.contextValues;
    this.#head = head;
    this.#places = places;
    this.#onRefused = onRefused;
  }

  /**
   * The call's body has come: it takes its place among those under way, so that slow bodies keep none.
   *
   * @throws ConnectError that its caller is told, when others took the last place while the body came
   */
  begin(): void {
    if (this.#places && !this.#places.tryEnter()) throw this.refuse(this.#places.refusal);
    this.#isUnderWay = true;
  }

  /** The call has been answered, or given up; whatever comes after the first time is passed over. */
  end(): void {
    if (this.#isUnderWay) this.#places?.leave();
    this.#isUnderWay = false;
  }

  /** The ConnectError that the caller of a call that is refused after all is told. */
  refuse(refusal: Refusal): ConnectError {
    const { method, protocolName, header } = this.#head;
    const request = { method, protocolName, header, arrived: this.#arrived };
    return this.#onRefused?.(refusal, request) ?? defaultError(refusal);
  }
}

/** The places of calls that are under way. */
class Places {
  readonly isExempt: (method: DescMethod) => boolean;
  readonly refusal: Refusal;
  readonly #max: number;
  #taken = 0;

  constructor({ max, isExempt }: CallLimit) {
    this.#max = max;
    this.isExempt = isExempt ?? (() => false);
    this.refusal = { kind: "too-many-calls", limit: max };
  }

  get isFull(): boolean {
    return this.#taken >= this.#max;
  }

  tryEnter(): boolean {
    if (this.isFull) return false;
    this.#taken++;
    return true;
  }

  leave(): void {
    this.#taken--;
  }
}
