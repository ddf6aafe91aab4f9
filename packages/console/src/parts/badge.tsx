import type { ComponentChildren } from "preact";

/** The colour of a badge: what its state means for the user. */
export type Tone = "good" | "warn" | "bad" | "accent" | "neutral";

/** A state or a role. The text alone says it, too. */
export function Badge({ tone, children }: { readonly tone: Tone; readonly children: ComponentChildren }) {
  return <span class={`badge ${tone}`}>{children}</span>;
}
