/** Limits an action, such as a log line, to once per interval for each key. @returns whether the action may run now */
export function oncePer(intervalMs: number): (key: string) => boolean {
  const doneAt = new Map<string, number>();
  return (key) => {
    const now = performance.now();
    if (now - (doneAt.get(key) ?? Number.NEGATIVE_INFINITY) < intervalMs) return false;
    doneAt.set(key, now);
    return true;
  };
}
