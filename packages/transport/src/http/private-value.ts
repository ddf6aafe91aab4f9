/**
 * Returns the value that an object of a runtime has under a private symbol; undefined if the symbol does not exist.
 * test/runtime-internals.test.ts fails if a runtime changes one of the symbols that the transport uses.
 */
export function privateValue(target: object, description: string): unknown {
  const symbol = Object.getOwnPropertySymbols(target).find((each) => each.description === description);
  return symbol && (target as { readonly [symbol: symbol]: unknown })[symbol];
}
