import { signal } from "@preact/signals";

/** What was said last; the number makes the same text said twice two texts. */
const said = signal<{ readonly text: string; readonly number: number }>({ text: "", number: 0 });

/** Says something to whoever does not see the page, and shows it at its foot until the next. */
export function announce(text: string): void {
  said.value = { text, number: said.value.number + 1 };
}

/** Where `announce` says it. */
export function LiveRegion() {
  const { text, number } = said.value;
  return (
    <div class="live" role="status" aria-live="polite">
      {text !== "" && <p key={number}>{text}</p>}
    </div>
  );
}
