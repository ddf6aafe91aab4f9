import { inject } from "vitest";
import type { Certificates } from "./certificates.ts";
import { RUNTIMES, type Runtime } from "./runtime.ts";

declare module "vitest" {
  interface ProvidedContext {
    /** The certificates that all tests share. */
    certificates: Certificates;
  }
}

interface Variant {
  readonly runtime: Runtime;
  readonly secure: boolean;
  /** The certificates if `secure` is true. */
  readonly tls: Certificates | undefined;
}

/** Every runtime, without and with TLS. */
export const VARIANTS: readonly Variant[] = RUNTIMES.flatMap((runtime) => [
  { runtime, secure: false, tls: undefined },
  { runtime, secure: true, tls: inject("certificates") },
]);
