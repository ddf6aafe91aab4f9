/**
 * Returns a function that shares one call of `read` among all its callers. For `keptMs` milliseconds after the end of
 * the call, further callers get the same result or error.
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
