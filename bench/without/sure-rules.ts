import type { compileSureCheck as CompileSureCheck } from "../../src/rpc/sure-rules.ts";

/* protovalidate looks at every request. */

export const compileSureCheck = (): typeof CompileSureCheck => () => () => false;
