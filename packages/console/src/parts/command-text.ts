import { quoted } from "../../../operator/src/input.ts";

/** A command of `ugs`. */
export interface CommandProps {
  /** Its words, such as `group rotate`. */
  readonly command: string;
  /** Its options, which come before the arguments. */
  readonly options?: readonly (string | undefined)[];
  readonly args?: readonly (string | undefined)[];
  /** The environment to name. Undefined: that of the token. */
  readonly env?: string | undefined;
}

/** A command as it is typed into a shell. */
export function commandText({ command, options = [], args = [], env }: CommandProps): string {
  const isGiven = (text: string | undefined) => text !== undefined && text !== "";
  const given = args.filter(isGiven) as string[];
  const words = [
    ...command.split(" "),
    ...(options.filter(isGiven) as string[]),
    ...(env === undefined ? [] : ["--env", env]),
    // An id may look like an option.
    ...(given.some((arg) => arg.startsWith("-")) ? ["--"] : []),
    ...given,
  ];
  return ["ugs", ...words.map(quoted)].join(" ");
}
