import { type ContextValues, createContextValues } from "@connectrpc/connect";

/* Connect's own context values. */

export const LeanContextValues = () =>
  class {
    constructor() {
      // biome-ignore lint/correctness/noConstructorReturn: what is replaced is a class
      return createContextValues() as ContextValues;
    }
  };
