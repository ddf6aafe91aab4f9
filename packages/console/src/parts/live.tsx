import { computed, signal } from "@preact/signals";
import { X } from "lucide-preact";
import { useLayoutEffect, useState } from "preact/hooks";
import { route } from "../routes.ts";
import { session } from "../session/session.ts";

/** Identifies the current page and session. */
const place = computed(() => JSON.stringify([session.value?.number, route.value]));

/** The last announcement. If two announcements have the same text, the number distinguishes them. */
const said = signal({ text: "", number: 0 });

/**
 * Announces a text to screen readers, and shows the text. The text disappears at the next announcement, when the user
 * dismisses it, or when the route or the session changes.
 */
export function announce(text: string): void {
  said.value = { text, number: said.peek().number + 1 };
}

place.subscribe(() => announce(""));

/**
 * The mounted `LiveRegion` components. Only the last component shows the announcement. If a dialog is open, the last
 * component is in the dialog. While a dialog is open, screen readers ignore announcements outside of the dialog.
 */
const regions = signal<readonly symbol[]>([]);

/** Shows the announcements. The page and each dialog contain one region. */
export function LiveRegion() {
  const [self] = useState(() => Symbol());
  useLayoutEffect(() => {
    regions.value = [...regions.peek(), self];
    return () => {
      regions.value = regions.peek().filter((each) => each !== self);
    };
  }, []);
  const { text, number } = said.value;
  const isSpeaking = regions.value.at(-1) === self;
  return (
    <div class="live" role="status" aria-live="polite">
      {isSpeaking && text !== "" && (
        <p key={number}>
          {text}
          <button type="button" class="plain" onClick={() => announce("")}>
            <X aria-hidden />
            <span class="unseen">Dismiss</span>
          </button>
        </p>
      )}
    </div>
  );
}
