import type { DescMethod } from "@bufbuild/protobuf";
import type { ContextValues } from "@connectrpc/connect";
import { LeanContextValues } from "./lean-context-values.ts";
import { type HeaderRecord, LeanHeaders } from "./record-headers.ts";

/** A call as its header tells of it, before its body is read. */
export interface CallHead {
  readonly method: DescMethod;
  /** `grpc`, `grpc-web`, `connect`, or what else will decode it. */
  readonly protocolName: string;
  readonly header: Headers;
  /** Those of the call, if it is let in: what is found out here need not be found out again. */
  readonly contextValues: ContextValues;
}

/**
 * Lets a call in by its header alone, or refuses it: throws or rejects with the ConnectError that its caller is told.
 * Nothing is read, inflated or decoded of the body of a call that is refused.
 *
 * @returns the call's turn; undefined for one that need not wait for any
 */
export type Admit = (head: CallHead) => Turn | undefined | Promise<Turn | undefined>;

/** The place of a call among those that are under way. It is taken when the body has come, so that slow ones keep none. */
export interface Turn {
  /** Takes the place. @throws ConnectError that its caller is told, when there is none any more */
  begin(): void;
  /** Gives it back; called once, and only after it was taken. */
  end(): void;
}

/** A call that was let in. */
export class Admitted {
  readonly header: Headers;
  readonly contextValues: ContextValues;
  readonly #turn: Turn | undefined;
  #isUnderWay = false;

  constructor({ header, contextValues }: Pick<CallHead, "header" | "contextValues">, turn: Turn | undefined) {
    this.header = header;
    this.contextValues = contextValues;
    this.#turn = turn;
  }

  /** The call's body has come. @throws ConnectError that its caller is told, when the call cannot be made after all */
  begin(): void {
    this.#turn?.begin();
    this.#isUnderWay = true;
  }

  /** The call has been answered, or given up; whatever comes after the first time is passed over. */
  end(): void {
    if (this.#isUnderWay) this.#turn?.end();
    this.#isUnderWay = false;
  }
}

/** What decides on calls, and the context values that they begin with. */
export interface AdmissionHooks {
  readonly admit?: Admit | undefined;
  readonly contextValues?: ((request: { readonly headers: HeaderRecord }) => ContextValues) | undefined;
}

/** Asks whether a call may come in. Throws or rejects with what its caller is told. */
export function admitted(
  method: DescMethod,
  protocolName: string,
  headers: HeaderRecord,
  { admit, contextValues: valuesOf }: AdmissionHooks,
): Admitted | Promise<Admitted> {
  const contextValues = valuesOf?.({ headers }) ?? new LeanContextValues();
  const head = { method, protocolName, header: new LeanHeaders(headers), contextValues };
  const turn = admit?.(head);
  return turn instanceof Promise ? turn.then((late) => new Admitted(head, late)) : new Admitted(head, turn);
}
