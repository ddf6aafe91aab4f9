/**
 * Shares a read among all callers. Reuses the result or the error of the read for `keptMs` milliseconds after the read.
 */
export function sharedResult<T>(keptMs: number, read: () => Promise<T>): () => Promise<T> {
  let result: Promise<T> | undefined;
  /** The time at which the reuse ends, by `performance.now()`. */
  let until = 0;
  return () => {
    if (result && performance.now() < until) return result;
    until = Number.POSITIVE_INFINITY;
    result = read().finally(() => {
      until = performance.now() + keptMs;
    });
    return result;
  };
}
