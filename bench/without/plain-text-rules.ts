import type { compilePlainTextCheck as Compile } from "../../src/rpc/plain-text-rules.ts";

/* protovalidate looks at every request. */

export const compilePlainTextCheck = (): typeof Compile => () => () => false;
