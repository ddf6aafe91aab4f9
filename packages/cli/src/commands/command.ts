import type { Command } from "commander";
import { openSession, type Session } from "../session.ts";
import type { GlobalOptions } from "../settings.ts";
import type { Shell } from "../shell.ts";

/** Adds commands to the program, or to a command that has others. */
export type AddCommands = (program: Command, shell: Shell) => void;

/** What a command does. @param args its arguments and then its options, as commander gives them */
type Run<Args extends readonly unknown[]> = (session: Session, ...args: Args) => Promise<void>;

/**
 * Has a command run in a session of its own. What it throws ends the run: a `Failure` is explained, and its exit code
 * taken.
 */
export function runs<Args extends readonly unknown[]>(command: Command, shell: Shell, run: Run<Args>): Command {
  return command.action(async (...given: unknown[]) => {
    const session = openSession(shell, command.optsWithGlobals<GlobalOptions>());
    // The last one is the command itself.
    await run(session, ...(given.slice(0, -1) as unknown as Args));
  });
}
