import root from "@bomb.sh/tab";
import type { Command } from "commander";
import { Profiles } from "./profiles.ts";
import type { Shell } from "./shell.ts";

/**
 * Answers the script of `ugs completion`, on standard output.
 *
 * @param program with all of its commands loaded
 * @param words of the command line behind `ugs`; the last one is what is to be completed, and may be empty
 */
export async function complete(program: Command, words: readonly string[], { env }: Pick<Shell, "env">): Promise<void> {
  const profiles = await new Profiles(env).names();
  addOptions(root, program, profiles);
  for (const [path, command] of descendantsOf(program)) {
    const known = root.command(path, command.description());
    addOptions(known, command, profiles);
    // Options of all commands are taken behind each.
    addOptions(known, program, profiles);
    for (const argument of command.registeredArguments) {
      const choices = command.name() === "use" ? profiles : (argument.argChoices ?? []);
      known.argument(
        argument.name(),
        (offer) => choices.forEach((choice) => void offer(choice, "")),
        argument.variadic,
      );
    }
  }
  root.parse([...words]);
}

/** Tells what completes of the options of a command. */
function addOptions(known: ReturnType<typeof root.command>, command: Command, profiles: readonly string[]): void {
  for (const option of command.createHelp().visibleOptions(command)) {
    const name = option.long?.slice(2) ?? "";
    const alias = option.short?.slice(1);
    const choices = name === "profile" ? profiles : (option.argChoices ?? []);
    if (!option.required) known.option(name, option.description, alias);
    else known.option(name, option.description, (offer) => choices.forEach((choice) => void offer(choice, "")), alias);
  }
}

/** The commands below one, by their paths such as `env list`. */
function descendantsOf(command: Command, before = ""): [path: string, command: Command][] {
  return command.commands.flatMap((child) => {
    const path = `${before}${child.name()}`;
    return [[path, child], ...descendantsOf(child, `${path} `)] satisfies [string, Command][];
  });
}
