import { pause } from "./wait.ts";

export interface Repeated {
  readonly failures: readonly string[];
  /** Stops the loops, waits for the calls in flight, and returns the errors of all failed calls. */
  end(): Promise<readonly string[]>;
}

/**
 * Starts one loop for each function in `calls`. Each loop repeats its call, even after a failed call. After each call,
 * the loop waits for a random time of at most `longestPauseMs`. These pauses leave CPU time for the operation under
 * test.
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
