import { pause } from "./wait.ts";

/** Calls in a loop. */
export interface Repeated {
  /** Errors of the failed calls so far. */
  readonly failures: readonly string[];
  /** Starts no more calls, and waits for those in flight. @returns the errors of the failed calls */
  end(): Promise<readonly string[]>;
}

/** Repeats each call in its own loop, with a pause of a few milliseconds, even after errors. */
export function repeat(calls: readonly (() => Promise<unknown>)[], longestPauseMs = 6): Repeated {
  const failures: string[] = [];
  let isEnding = false;
  const loops = calls.map(async (call) => {
    while (!isEnding) {
      await call().catch((error: unknown) => failures.push(String(error)));
      await pause(Math.random() * longestPauseMs);
    }
  });
  return {
    failures,
    async end() {
      isEnding = true;
      await Promise.all(loops);
      return failures;
    },
  };
}
