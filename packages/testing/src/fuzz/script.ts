/** The steps of one connection. */
export interface Script {
  readonly name: string;
  readonly protocol: "h2" | "http/1.1";
  readonly steps: readonly Step[];
  /** Number of expected responses; undefined for an invalid exchange. */
  readonly answers?: number;
}

/** A step: bytes in their own packet, a pause, or the end of the connection. */
export type Step =
  | { readonly kind: "send"; readonly bytes: Buffer }
  | { readonly kind: "wait"; readonly ms: number }
  | { readonly kind: "end" }
  | { readonly kind: "reset" };

/** Formats a script, with bytes in hexadecimal, up to 6000 characters. */
export function describeScript({ name, protocol, steps }: Script): string {
  const lines = steps.map((step) => {
    if (step.kind === "send") return `  send ${step.bytes.toString("hex")}`;
    return step.kind === "wait" ? `  wait ${step.ms} ms` : `  ${step.kind}`;
  });
  return [`${name} (${protocol})`, ...lines].join("\n").slice(0, 6000);
}
