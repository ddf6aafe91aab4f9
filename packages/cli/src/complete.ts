import type { Argument, Command, Option } from "commander";
import { Output } from "./output/output.ts";
import { Profiles } from "./profiles.ts";
import type { Shell } from "./shell.ts";

type Candidate = readonly [word: string, description: string];

/**
 * Writes the completions of the last word, one per line. A tab separates a completion from its description.
 *
 * @param words the words after `ugs`. The shell must not have expanded these words. The last word may be empty
 */
export async function complete(program: Command, words: readonly string[], shell: Shell): Promise<void> {
  const profiles = await new Profiles(shell.env).names().catch(() => []);
  const typed = words.at(-1) ?? "";
  const found = candidatesFor(program, words, profiles).filter(([word]) => word.startsWith(typed));
  const out = new Output(shell, false);
  if (found.length > 0) await out.line(found.map((candidate) => candidate.join("\t")).join("\n"));
}

function candidatesFor(program: Command, words: readonly string[], profiles: readonly string[]): readonly Candidate[] {
  const { command, position, option } = placeOf(program, words.slice(0, -1));
  const typed = words.at(-1) ?? "";
  const choices = (of: Option | Argument | undefined): readonly Candidate[] =>
    (isProfile(of, command) ? profiles : (of?.argChoices ?? [])).map((choice) => [choice, ""]);
  if (option) return choices(option);
  const [name, ...value] = typed.split("=");
  if (value.length > 0 && name?.startsWith("-"))
    return choices(optionOf(program, command, name)).map(([choice]) => [`${name}=${choice}`, ""]);
  if (typed.startsWith("-"))
    return optionsOf(program, command).flatMap(({ long, short, description }) =>
      [long, short].filter((flag) => flag !== undefined).map((flag): Candidate => [flag, description]),
    );
  const children = command.commands.map((child): Candidate => [child.name(), child.description()]);
  return [...children, ...choices(command.registeredArguments[position])];
}

function isProfile(of: Option | Argument | undefined, command: Command): boolean {
  if (!of) return false;
  return of.name() === "profile" || (command.name() === "use" && command.registeredArguments.includes(of as Argument));
}

/**
 * Returns the command in `words`, and the number of arguments after the command. If the last word is an option that
 * takes a value, also returns this option.
 */
function placeOf(program: Command, words: readonly string[]) {
  let command = program;
  let position = 0;
  let option: Option | undefined;
  for (const word of words) {
    if (option) {
      option = undefined;
    } else if (word.startsWith("-")) {
      const named = optionOf(program, command, word);
      if (named?.required) option = named;
    } else {
      const child = command.commands.find((each) => each.name() === word);
      if (child) command = child;
      else position += 1;
    }
  }
  return { command, position, option };
}

function optionOf(program: Command, command: Command, flag: string): Option | undefined {
  return optionsOf(program, command).find(({ long, short }) => flag === long || flag === short);
}

function optionsOf(program: Command, command: Command): readonly Option[] {
  const help = command.createHelp();
  const own = help.visibleOptions(command);
  return command === program ? own : [...own, ...program.options.filter(({ long }) => long !== "--version")];
}
