import type { RateCounter } from "../../src/domain/store.ts";

/** A rate counter that never responds, and the keys that it was called with. */
export function silentCounter() {
  const keys: string[] = [];
  const counter: RateCounter = {
    add: (key) => {
      keys.push(key);
      return new Promise<never>(() => {});
    },
  };
  return { keys, counter };
}
