/** How much may be done in a window of time. The window begins with what is counted first in it. */
export interface RateLimit {
  /** How many times in a window. */
  readonly max: number;
  /** How long a window is, in whole seconds. */
  readonly windowSeconds: number;
}

/** What is counted under a key in the current window. */
export interface Count {
  /** By all workers together. */
  readonly total: number;
  /** When the window ends, in milliseconds from now. */
  readonly resetMs: number;
}

/** Counts under keys, in windows. */
export interface RateCounter {
  /** Adds to the count of a key. Never rejects: while the store is away, this process counts alone. */
  add(key: string, amount: number): Promise<Count>;
  /** Frees what this process holds for a key; what all workers have counted stays. */
  forget(key: string): void;
}

/** Why something is not done now: a limit is reached. */
export interface Limited {
  readonly limit: RateLimit;
  /** When there is room again, in milliseconds from now. */
  readonly retryAfterMs: number;
}
