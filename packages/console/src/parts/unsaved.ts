import { signal } from "@preact/signals";
import { useLayoutEffect } from "preact/hooks";

/** Whether a dialog has unsaved text. At most one dialog can have unsaved text, so a single flag is enough. */
let hasUnsaved = false;

/**
 * The function that leaves the page after the user confirms the loss of unsaved text. Undefined if no confirmation is
 * open.
 */
export const leaving = signal<(() => void) | undefined>(undefined);

/** While `isUnsaved` is true, the user must confirm the loss of the text before leaving or closing the page. */
export function useUnsaved(isUnsaved: boolean): void {
  useLayoutEffect(() => {
    hasUnsaved = isUnsaved;
    return () => {
      hasUnsaved = false;
    };
  }, [isUnsaved]);
}

/** Runs `act`, which leaves the page. If the page has unsaved text, the user must confirm first. */
export function leave(act: () => void): void {
  if (hasUnsaved) leaving.value = act;
  else act();
}

addEventListener("beforeunload", (event) => {
  if (hasUnsaved) event.preventDefault();
});
