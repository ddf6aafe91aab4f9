import { createInterface } from "node:readline";
import { usageFailure } from "./failures.ts";
import { printable } from "./output/printable.ts";
import { Interrupted, type Shell } from "./shell.ts";

export function canAsk({ stdin, stderr }: Pick<Shell, "stdin" | "stderr">): boolean {
  return stdin.isTTY === true && stderr.isTTY === true;
}

/**
 * Prompts the user on the terminal. If `isSecret` is set, the terminal does not show the answer.
 *
 * @throws Interrupted at Ctrl-C
 * @throws Failure if the terminal is closed, or if the signal aborts
 */
export async function ask(
  shell: Pick<Shell, "stdin" | "stderr" | "signal">,
  question: string,
  { isSecret = false }: { readonly isSecret?: boolean } = {},
): Promise<string> {
  const { stdin: input, stderr, signal } = shell;
  const output = isSecret ? undefined : stderr;
  const lines = createInterface({ input, output, signal, terminal: true, historySize: 0 });
  const prompt = `${printable(question)}: `;
  if (isSecret) stderr.write(prompt);
  try {
    return await new Promise<string>((resolve, reject) => {
      lines.once("SIGINT", () => reject(new Interrupted()));
      lines.once("close", () => reject(usageFailure("no answer; nothing was done")));
      lines.question(isSecret ? "" : prompt, (answer) => resolve(answer.trim()));
    });
  } catch (error) {
    stderr.write("\n");
    throw error;
  } finally {
    if (isSecret) stderr.write("\n");
    lines.close();
  }
}

export interface Confirmation {
  /** The text that the user must type, such as the id of a user group. */
  readonly id: string;
  /** The consequence of the action, as a sentence. The text does not end with a full stop. */
  readonly consequence: string;
}

/**
 * Prompts the user to type an id. If `isSure` is set, does not prompt.
 *
 * @throws Failure if the user does not confirm, or if no terminal is available
 */
export async function confirm(shell: Shell, { id, consequence }: Confirmation, isSure = false): Promise<void> {
  if (isSure) return;
  if (!canAsk(shell))
    throw usageFailure(
      `nothing was done: the confirmation needs a terminal. ${consequence}`,
      "to confirm without a terminal, give --yes",
    );
  shell.stderr.write(`${printable(consequence)}.\n`);
  const answer = await ask(shell, `To continue, type ${id}`);
  if (answer !== id) throw usageFailure(`the answer is not ${id}: nothing was done`);
}
