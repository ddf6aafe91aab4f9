/**
 * Shares a read among all callers. During a read, all callers get the result or the error of that read.
 *
 * @param keptMs the time for which a result or an error is reused after the read, in milliseconds
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
