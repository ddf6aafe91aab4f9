import type { Failure } from "../failures.ts";
import { jsonLine, printable } from "./printable.ts";

export function reportOf(failure: Failure, isJson: boolean): string {
  const { message, detail } = failure;
  const { hint, code, reason, requestId, outcome, violations = [], exitCode } = detail;
  if (isJson) {
    const error = { message, hint, code, reason, requestId, outcome, exitCode };
    return `${jsonLine({ error: violations.length > 0 ? { ...error, violations } : error })}\n`;
  }
  const lines = [`ugs: ${message}`];
  for (const { field, description } of violations) {
    if (!message.includes(description)) lines.push(`  ${field}: ${description}`);
  }
  // The hint for TOO_FEW_REPLICAS says that the change was made.
  if (outcome === "unknown" && reason !== "TOO_FEW_REPLICAS" && !hint?.includes("may have been made"))
    lines.push("  the change may have been made: check before you repeat it");
  if (hint !== undefined) lines.push(`  ${hint}`);
  const facts = [code, reason, requestId === undefined ? undefined : `request ${requestId}`];
  const known = facts.filter((fact) => fact !== undefined);
  if (known.length > 0) lines.push(`  (${known.join(", ")})`);
  return `${lines.map(printable).join("\n")}\n`;
}
