import { signal } from "@preact/signals";

/** The last announcement; the number tells two of the same text apart. */
const said = signal<{ readonly text: string; readonly number: number }>({ text: "", number: 0 });

/** Announces a text to screen readers, and shows it at the foot of the page until the next one. */
export function announce(text: string): void {
  said.value = { text, number: said.value.number + 1 };
}

/** The place of the announcements. */
export function LiveRegion() {
  const { text, number } = said.value;
  return (
    <div class="live" role="status" aria-live="polite">
      {text !== "" && <p key={number}>{text}</p>}
    </div>
  );
}
