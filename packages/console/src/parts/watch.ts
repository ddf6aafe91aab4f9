/**
 * Calls `look` repeatedly while the page is visible, until the signal aborts.
 *
 * @param look resolves with the pause until the next call, in milliseconds. Undefined: no further call
 */
export async function watch(
  look: () => Promise<number | undefined>,
  { signal, onPaused }: { readonly signal: AbortSignal; readonly onPaused: (isPaused: boolean) => void },
): Promise<void> {
  while (!signal.aborted) {
    if (document.visibilityState === "hidden") {
      onPaused(true);
      await visible(signal);
      onPaused(false);
      if (signal.aborted) return;
    }
    const pauseMs = await look();
    if (pauseMs === undefined) return;
    await passed(pauseMs, signal);
  }
}

/** Resolves once the page becomes visible or hidden, or the signal aborts. */
function visible(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    document.addEventListener("visibilitychange", () => resolve(), { signal, once: true });
    signal.addEventListener("abort", () => resolve(), { once: true });
  });
}

/** Resolves after a time in milliseconds, or once the signal aborts. */
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
