import { signal } from "@preact/signals";
import { useLayoutEffect } from "preact/hooks";

/** The forms on the page that hold unsaved text. */
const unsaved = new Set<symbol>();

/** What leaves the page once the person agrees to lose unsaved text; undefined when nothing has to be confirmed. */
export const leaving = signal<(() => void) | undefined>(undefined);

/** Makes `leave`, and the browser on a reload, ask before the text of this form is lost. */
export function useUnsaved(isUnsaved: boolean): void {
  useLayoutEffect(() => {
    if (!isUnsaved) return;
    const self = Symbol();
    unsaved.add(self);
    return () => void unsaved.delete(self);
  }, [isUnsaved]);
}

/** Leaves the page. If that would lose unsaved text, the person is asked first. @param act what leaves it */
export function leave(act: () => void): void {
  if (unsaved.size === 0) act();
  else leaving.value = act;
}

addEventListener("beforeunload", (event) => {
  if (unsaved.size > 0) event.preventDefault();
});
