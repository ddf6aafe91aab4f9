import { inject } from "vitest";
import type { Certificates } from "./certificates.ts";
import { RUNTIMES, type Runtime } from "./runtime.ts";

declare module "vitest" {
  interface ProvidedContext {
    certificates: Certificates;
  }
}

interface Variant {
  readonly runtime: Runtime;
  readonly secure: boolean;
  /** Undefined if `secure` is false. */
  readonly tls: Certificates | undefined;
}

export const VARIANTS: readonly Variant[] = RUNTIMES.flatMap((runtime) => [
  { runtime, secure: false, tls: undefined },
  { runtime, secure: true, tls: inject("certificates") },
]);
