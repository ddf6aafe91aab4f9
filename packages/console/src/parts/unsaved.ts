import { signal } from "@preact/signals";
import { useLayoutEffect } from "preact/hooks";

/** The forms with unsaved text. */
const unsaved = new Set<symbol>();

/**
 * Leaves the page after the user agrees to lose unsaved text. Undefined if the user has nothing to confirm.
 */
export const leaving = signal<(() => void) | undefined>(undefined);

/** Registers a form with unsaved text: `leave` and the browser then ask the user before the text is lost. */
export function useUnsaved(isUnsaved: boolean): void {
  useLayoutEffect(() => {
    if (!isUnsaved) return;
    const self = Symbol();
    unsaved.add(self);
    return () => void unsaved.delete(self);
  }, [isUnsaved]);
}

/** Leaves the page. If unsaved text would be lost, the user must confirm first. @param act leaves the page */
export function leave(act: () => void): void {
  if (unsaved.size === 0) act();
  else leaving.value = act;
}

addEventListener("beforeunload", (event) => {
  if (unsaved.size > 0) event.preventDefault();
});
