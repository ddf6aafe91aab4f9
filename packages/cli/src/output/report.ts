import { Failure } from "../failures.ts";
import { jsonLine, printable } from "./printable.ts";

/** The text of standard error for a failure: lines for people, or one JSON object. */
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
  if (outcome === "unknown" && !hint?.includes("may have been made"))
    lines.push("  a change may have been made: look before you repeat it");
  if (hint !== undefined) lines.push(`  ${hint}`);
  const facts = [code, reason, requestId === undefined ? undefined : `request ${requestId}`];
  const told = facts.filter((fact) => fact !== undefined);
  if (told.length > 0) lines.push(`  (${told.join(", ")})`);
  return `${lines.map(printable).join("\n")}\n`;
}

/** The failure that is shown for an unexpected error. */
export function unforeseen(error: unknown): Failure {
  const text = error instanceof Error ? error.message : String(error);
  return new Failure(text, {
    exitCode: 1,
    hint: "nobody foresaw this: please report it, with the command",
    cause: error,
  });
}
