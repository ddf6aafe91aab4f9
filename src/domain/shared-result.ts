/**
 * Shares a read among all callers: at most one runs at a time, and its result or error is reused for a while.
 *
 * @param keptMs how long it is reused after the read has ended, in milliseconds
 */
export function sharedResult<T>(keptMs: number, read: () => Promise<T>): () => Promise<T> {
  let result: Promise<T> | undefined;
  /** The result is reused until this time of `performance.now()`. */
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
