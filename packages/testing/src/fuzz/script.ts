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

/** Serializes scripts for a replay. Bytes are in base64. */
export function formatScripts(scripts: readonly Script[]): string {
  const asText = (_key: string, value: unknown) =>
    value !== null && typeof value === "object" && "type" in value && value.type === "Buffer" && "data" in value
      ? Buffer.from(value.data as number[]).toString("base64")
      : value;
  return `${JSON.stringify(scripts, asText, 1)}\n`;
}

/** Parses serialized scripts. */
export function parseScripts(text: string): Script[] {
  const scripts = JSON.parse(text) as (Omit<Script, "steps"> & { steps: (Step & { bytes: string })[] })[];
  return scripts.map((script) => ({
    ...script,
    steps: script.steps.map((step) =>
      step.kind === "send" ? { kind: "send", bytes: Buffer.from(step.bytes, "base64") } : step,
    ),
  }));
}

/** Formats a script for people, with bytes in hexadecimal. */
export function describeScript({ name, protocol, steps }: Script): string {
  const lines = steps.map((step) => {
    if (step.kind === "send") return `  send ${step.bytes.toString("hex")}`;
    return step.kind === "wait" ? `  wait ${step.ms} ms` : `  ${step.kind}`;
  });
  return [`${name} (${protocol})`, ...lines].join("\n");
}
