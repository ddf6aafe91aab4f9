import type { Command } from "commander";
import { openSession, type Session } from "../session.ts";
import type { GlobalOptions } from "../settings.ts";
import type { Shell } from "../shell.ts";

/** Defines a command. Adds arguments, options and an action to the `Command` object, or adds subcommands. */
export type DefineCommand = (command: Command, shell: Shell) => void;

/** Defines a command with subcommands. @param what the subject of the subcommands, such as `environments` */
export function commandGroup(what: string, commands: { readonly [name: string]: DefineCommand }): DefineCommand {
  return (parent, shell) => {
    parent.description(`${what}: ${Object.keys(commands).join(", ")}`);
    for (const [name, define] of Object.entries(commands)) define(parent.command(name), shell);
  };
}

type Run<Args extends readonly unknown[]> = (session: Session, ...args: Args) => Promise<void>;

/** Sets the action of a command. Each run of the command opens a session. */
export function runs<Args extends readonly unknown[]>(command: Command, shell: Shell, run: Run<Args>): Command {
  return command.action(async (...given: unknown[]) => {
    const session = openSession(shell, command.optsWithGlobals<GlobalOptions>());
    // Commander passes the command itself as the last argument.
    await run(session, ...(given.slice(0, -1) as unknown as Args));
  });
}
