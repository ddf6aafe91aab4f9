import { quoted } from "../../../operator/src/input.ts";

/** A command of `ugs`. */
export interface CommandProps {
  /** Its words, such as `group rotate`. */
  readonly command: string;
  /**
   * Its options by name, which come before the arguments. Options that are empty or false are omitted. An option with several
   * values is repeated.
   */
  readonly options?: { readonly [name: string]: string | boolean | readonly string[] | undefined };
  readonly args?: readonly (string | undefined)[];
  /** The environment to name. Undefined: the environment of the token. */
  readonly env?: string | undefined;
}

/** Formats a command for a shell. */
export function commandText({ command, options = {}, args = [], env }: CommandProps): string {
  const given = args.filter((arg) => arg !== undefined && arg !== "") as string[];
  const all: NonNullable<CommandProps["options"]> = { ...options, env };
  const words = [
    ...command.split(" "),
    ...Object.entries(all).flatMap(([name, value]) => {
      if (!value) return [];
      if (value === true) return `--${name}`;
      // With `=`, commander does not read the arguments as further values.
      return typeof value === "string" ? [`--${name}`, value] : value.map((each) => `--${name}=${each}`);
    }),
    // An id may look like an option.
    ...(given.some((arg) => arg.startsWith("-")) ? ["--"] : []),
    ...given,
  ];
  return ["ugs", ...words.map(quoted)].join(" ");
}
