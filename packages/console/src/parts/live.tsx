import { signal } from "@preact/signals";
import { useLayoutEffect, useState } from "preact/hooks";

/** The last announcement; the number tells two of the same text apart. */
const said = signal<{ readonly text: string; readonly number: number }>({ text: "", number: 0 });

/** Announces a text to screen readers, and shows it at the foot of the page until the next one. */
export function announce(text: string): void {
  said.value = { text, number: said.value.number + 1 };
}

/** The mounted regions. Only the last one shows the text, because screen readers ignore what is outside of an open dialog. */
const regions = signal<readonly symbol[]>([]);

/** The place of the announcements: one in the page, and one in each dialog. */
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
      {isSpeaking && text !== "" && <p key={number}>{text}</p>}
    </div>
  );
}
