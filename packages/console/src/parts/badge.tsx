import type { ComponentChildren } from "preact";

export type Tone = "good" | "warn" | "bad" | "accent" | "neutral";

/** Shows a state or a role. The colour adds no information to the text. */
export function Badge({ tone, children }: { readonly tone: Tone; readonly children: ComponentChildren }) {
  return <span class={`badge ${tone}`}>{children}</span>;
}
