/**
 * Shares a read among all callers. Only one read runs at a time. Further callers get the result or the error of this
 * read.
 *
 * @param keptMs the time for which the result of a finished read is reused, in milliseconds
 */
export function sharedResult<T>(keptMs: number, read: () => Promise<T>): () => Promise<T> {
  let result: Promise<T> | undefined;
  /** The end of the reuse, by `performance.now()`. */
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
