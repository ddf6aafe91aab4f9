/** Limits how often an action runs. The returned function returns true at most once per interval for each key. */
export function oncePer(intervalMs: number): (key: string) => boolean {
  const doneAt = new Map<string, number>();
  return (key) => {
    const now = performance.now();
    if (now - (doneAt.get(key) ?? Number.NEGATIVE_INFINITY) < intervalMs) return false;
    doneAt.set(key, now);
    return true;
  };
}
