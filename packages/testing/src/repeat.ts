import { pause } from "./wait.ts";

/** Calls that are made again and again. */
interface Repeated {
  /** Why calls failed so far. */
  readonly failures: readonly string[];
  /** Makes no further calls, and waits for those under way. @returns why calls failed */
  end(): Promise<readonly string[]>;
}

/** Makes each of some calls again and again, one at a time with a pause of a few milliseconds, whether they fail or not. */
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
