import type { DescMethod } from "@bufbuild/protobuf";
import type { ContextValues } from "@connectrpc/connect";
import { LeanContextValues } from "./lean-context-values.ts";
import { type HeaderRecord, LeanHeaders } from "./lean-headers.ts";

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
 * @returns what is to be called when a call that was let in has been answered or given up; it is called once
 */
export type Admit = (head: CallHead) => Release | undefined | Promise<Release | undefined>;

/** Told that a call is under way no more. */
export type Release = () => void;

/** A call that was let in. */
export class Admitted {
  readonly header: Headers;
  readonly contextValues: ContextValues;
  #release: Release | undefined;

  constructor({ header, contextValues }: Pick<CallHead, "header" | "contextValues">, release: Release | undefined) {
    this.header = header;
    this.contextValues = contextValues;
    this.#release = release;
  }

  /** The call has been answered, or given up; whatever comes after the first time is passed over. */
  end(): void {
    this.#release?.();
    this.#release = undefined;
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
  const release = admit?.(head);
  return release instanceof Promise ? release.then((late) => new Admitted(head, late)) : new Admitted(head, release);
}
