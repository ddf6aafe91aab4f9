import { signal } from "@preact/signals";
import { useLayoutEffect } from "preact/hooks";

/** The forms with unsaved text. */
const unsaved = new Set<symbol>();

/** Leaves the page after the user agrees to lose unsaved text. Undefined: nothing to confirm. */
export const leaving = signal<(() => void) | undefined>(undefined);

/** Makes `leave` and the browser ask before unsaved text of a form is lost. */
export function useUnsaved(isUnsaved: boolean): void {
  useLayoutEffect(() => {
    if (!isUnsaved) return;
    const self = Symbol();
    unsaved.add(self);
    return () => void unsaved.delete(self);
  }, [isUnsaved]);
}

/** Leaves the page. It asks the user first if unsaved text would be lost. @param act leaves the page */
export function leave(act: () => void): void {
  if (unsaved.size === 0) act();
  else leaving.value = act;
}

addEventListener("beforeunload", (event) => {
  if (unsaved.size > 0) event.preventDefault();
});
