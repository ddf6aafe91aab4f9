import type { Command } from "commander";
import { openSession, type Session } from "../session.ts";
import type { GlobalOptions } from "../settings.ts";
import type { Shell } from "../shell.ts";

/** Defines a command: its arguments, its options, and what it does, or the commands below it. */
export type DefineCommand = (command: Command, shell: Shell) => void;

/** What a command does. @param args its arguments and then its options, as commander gives them */
type Run<Args extends readonly unknown[]> = (session: Session, ...args: Args) => Promise<void>;

/**
 * Makes a command run in a session of its own. A `Failure` that it throws is explained to the user, and is where the
 * exit code comes from.
 */
export function runs<Args extends readonly unknown[]>(command: Command, shell: Shell, run: Run<Args>): Command {
  return command.action(async (...given: unknown[]) => {
    const session = openSession(shell, command.optsWithGlobals<GlobalOptions>());
    // Commander passes the command itself as the last argument.
    await run(session, ...(given.slice(0, -1) as unknown as Args));
  });
}
