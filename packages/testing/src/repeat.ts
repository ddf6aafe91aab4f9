import { pause } from "./wait.ts";

export interface Repeated {
  readonly failures: readonly string[];
  /** Stops the loops, waits for the calls in flight, and returns the errors of all failed calls. */
  end(): Promise<readonly string[]>;
}

/**
 * Starts a loop for each call. Each loop repeats its call, and waits for a random time of at most `longestPauseMs`
 * after each repetition, so that the calls leave CPU time to the operation that a test waits for. If a call fails, its
 * loop continues.
 */
export function repeat(calls: readonly (() => Promise<unknown>)[], longestPauseMs = 40): Repeated {
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
