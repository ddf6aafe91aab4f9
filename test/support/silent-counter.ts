import type { RateCounter } from "../../src/domain/store.ts";

/** A counter that never answers, and the keys that it was to count. */
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
