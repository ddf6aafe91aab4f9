import type { ComponentChildren } from "preact";

/** The colour of a badge: the meaning of its state for the user. */
export type Tone = "good" | "warn" | "bad" | "accent" | "neutral";

/** A state or a role. The text alone gives the same information. */
export function Badge({ tone, children }: { readonly tone: Tone; readonly children: ComponentChildren }) {
  return <span class={`badge ${tone}`}>{children}</span>;
}
