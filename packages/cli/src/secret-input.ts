import { addAbortSignal } from "node:stream";
import { text } from "node:stream/consumers";
import { usageFailure } from "./failures.ts";
import { readSecretFile } from "./files.ts";
import { ask, canAsk } from "./questions.ts";
import { parseToken } from "./settings.ts";
import type { Shell } from "./shell.ts";

/**
 * Reads a token from a file. If `file` is undefined or `-`, prompts for the token on the terminal. The terminal does
 * not show the answer. If standard input is not a terminal, reads the token from standard input instead.
 *
 * @param what the name of the token in the prompt
 * @throws Failure if the token is missing or not valid, or if the file cannot be read
 * @throws Interrupted at Ctrl-C in the prompt
 */
export async function readToken(shell: Shell, what: string, file?: string): Promise<string> {
  if (file !== undefined && file !== "-") return parseToken(file, await readSecretFile(file));
  if (shell.stdin.isTTY) {
    if (!canAsk(shell)) throw usageFailure(`${what} is missing`, "give a file with the secret, or use standard input");
    return parseToken("the answer", await ask(shell, `${what} (not shown)`, { isSecret: true }));
  }
  return parseToken("standard input", await text(addAbortSignal(shell.signal, shell.stdin)));
}
