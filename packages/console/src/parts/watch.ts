import { useEffect, useState } from "preact/hooks";

/** The state of a value that is read repeatedly. */
export interface Watched<T> {
  /** The value of the last successful read. Undefined if no read has succeeded yet. */
  readonly value: T | undefined;
  /** The error of the last read. Undefined if the read succeeded, or if no read has ended yet. */
  readonly error: unknown;
  readonly isPaused: boolean;
  /** Whether the reads have stopped permanently. */
  readonly hasEnded: boolean;
}

/**
 * Reads a value repeatedly while the component is mounted and the page is visible.
 *
 * @param read receives the previous state, and resolves with the new value
 * @param pauseAfter receives the number of consecutive failures and the last error. Returns the pause before the next
 *   read, in milliseconds. If `pauseAfter` returns undefined, the reads stop
 */
export function useWatched<T>(
  read: (before: Watched<T>, signal: AbortSignal) => Promise<T>,
  pauseAfter: (failures: number, error: unknown) => number | undefined,
): Watched<T> {
  const [state, setState] = useState<Watched<T>>({
    value: undefined,
    error: undefined,
    isPaused: false,
    hasEnded: false,
  });
  useEffect(() => {
    const leaving = new AbortController();
    const { signal } = leaving;
    let current = state;
    const change = (changed: Partial<Watched<T>>) => {
      current = { ...current, ...changed };
      if (!signal.aborted) setState(current);
    };
    const watch = async () => {
      for (let failures = 0; !signal.aborted && !current.hasEnded; ) {
        if (document.visibilityState === "hidden") {
          change({ isPaused: true });
          await visible(signal);
          change({ isPaused: false });
          continue;
        }
        try {
          change({ value: await read(current, signal), error: undefined });
          failures = 0;
        } catch (error) {
          change({ error });
          failures += 1;
        }
        const pauseMs = pauseAfter(failures, current.error);
        if (pauseMs === undefined) change({ hasEnded: true });
        else await passed(pauseMs, signal);
      }
    };
    void watch();
    return () => leaving.abort();
  }, []);
  return state;
}

/** Resolves when the page becomes visible or hidden, or when the signal aborts. */
function visible(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    document.addEventListener("visibilitychange", () => resolve(), { signal, once: true });
    signal.addEventListener("abort", () => resolve(), { once: true });
  });
}

/** Resolves after a time in milliseconds, or when the signal aborts. */
function passed(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    signal.addEventListener("abort", end);
  });
}
