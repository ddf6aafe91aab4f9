import { signal } from "@preact/signals";
import { useLayoutEffect } from "preact/hooks";

/** The forms with unsaved text. */
const unsaved = new Set<symbol>();

/**
 * The function that leaves the page after the user confirms the loss of unsaved text. Undefined if no confirmation is
 * open.
 */
export const leaving = signal<(() => void) | undefined>(undefined);

/** Registers a form with unsaved text. Before this text is lost, the console or the browser prompts the user. */
export function useUnsaved(isUnsaved: boolean): void {
  useLayoutEffect(() => {
    if (!isUnsaved) return;
    const self = Symbol();
    unsaved.add(self);
    return () => void unsaved.delete(self);
  }, [isUnsaved]);
}

/** Runs `act`, which leaves the page. If the page has unsaved text, the user must confirm first. */
export function leave(act: () => void): void {
  if (unsaved.size === 0) act();
  else leaving.value = act;
}

addEventListener("beforeunload", (event) => {
  if (unsaved.size > 0) event.preventDefault();
});
