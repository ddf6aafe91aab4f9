import { inject } from "vitest";
import { PLACES } from "./attacks/place.ts";
import type { Certificates } from "./certificates.ts";

declare module "vitest" {
  interface ProvidedContext {
    certificates: Certificates;
  }
}

export const VARIANTS = PLACES.map(({ runtime, tls: secure }) => ({
  runtime,
  secure,
  tls: secure ? inject("certificates") : undefined,
}));
