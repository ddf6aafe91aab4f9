/** Returns the value under a private symbol of a runtime. test/runtime-internals.test.ts fails if a symbol changes. */
export function privateValue(target: object, description: string): unknown {
  const symbol = Object.getOwnPropertySymbols(target).find((each) => each.description === description);
  return symbol && (target as { readonly [symbol: symbol]: unknown })[symbol];
}
