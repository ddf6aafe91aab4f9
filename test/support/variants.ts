import { RUNTIMES, type Runtime } from "./server.ts";

/** A runtime, with TLS or without. */
export interface Variant {
  readonly runtime: Runtime;
  readonly secure: boolean;
}

/** Every runtime, without TLS and with it. */
export const VARIANTS: readonly Variant[] = RUNTIMES.flatMap((runtime) => [
  { runtime, secure: false },
  { runtime, secure: true },
]);
