import type { Command } from "commander";
import { openSession, type Session } from "../session.ts";
import type { GlobalOptions } from "../settings.ts";
import type { Shell } from "../shell.ts";

/** Gives a command what it has: arguments, options, what it does, or commands below it. */
export type DefineCommand = (command: Command, shell: Shell) => void;

/** A command of the program. Its file is loaded when it is run, so that no other one has to wait for it. */
export interface CommandEntry {
  readonly name: string;
  readonly description: string;
  readonly load: () => Promise<DefineCommand>;
}

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
