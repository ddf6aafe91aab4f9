import { signal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { type Answer, useAnswer } from "./calls.ts";

const isVisible = signal(document.visibilityState === "visible");
document.addEventListener("visibilitychange", () => {
  isVisible.value = document.visibilityState === "visible";
});

/** The state of a request that `useWatched` repeats. */
interface Watched<T> extends Answer<T> {
  /** Whether the next request waits until the page is visible. */
  readonly isPaused: boolean;
}

/**
 * Sends a request like `useAnswer`. Repeats the request while the component is mounted and the page is visible.
 *
 * @param pauseAfter receives the number of consecutive failures and the last error. Returns the pause before the next
 *   request, in milliseconds. If `pauseAfter` returns undefined, the requests stop
 */
export function useWatched<T>(
  key: string,
  ask: Parameters<typeof useAnswer<T>>[1],
  pauseAfter: (failures: number, error: unknown) => number | undefined,
): Watched<T> {
  const answer = useAnswer(key, ask);
  const { value, isBusy, error, again } = answer;
  const failures = useRef(0);
  const [isDue, setDue] = useState(false);
  useEffect(() => {
    if (isBusy) return;
    failures.current = error === undefined ? 0 : failures.current + 1;
    const pauseMs = pauseAfter(failures.current, error);
    if (pauseMs === undefined) return;
    const timer = setTimeout(() => setDue(true), pauseMs);
    return () => clearTimeout(timer);
  }, [value, isBusy, error]);
  useEffect(() => {
    if (!isDue || !isVisible.value) return;
    setDue(false);
    void again();
  }, [isDue, isVisible.value]);
  return { ...answer, isPaused: isDue && !isVisible.value };
}
