import { quoted } from "../../../operator/src/input.ts";

export interface CommandProps {
  /** The words of the command, such as `group rotate`. */
  readonly command: string;
  /** The values by option name. An array adds the option once for each text. Empty and false values add no option. */
  readonly options?: { readonly [name: string]: string | boolean | readonly string[] | undefined };
  readonly args?: readonly (string | undefined)[];
  /** The value of `--env`. If undefined, the command uses the environment of the token. */
  readonly env?: string | undefined;
}

/** Formats a `ugs` command for a shell. */
export function commandText({ command, options = {}, args = [], env }: CommandProps): string {
  const given = args.filter((arg) => arg !== undefined && arg !== "") as string[];
  const all: NonNullable<CommandProps["options"]> = { ...options, env };
  const words = [
    ...command.split(" "),
    ...Object.entries(all).flatMap(([name, value]) => {
      if (!value) return [];
      if (value === true) return `--${name}`;
      // A repeatable option needs `=`. After a space, commander would read all later arguments as values of the option.
      return typeof value === "string" ? [`--${name}`, value] : value.map((each) => `--${name}=${each}`);
    }),
    // An argument, such as an id, may begin with `-`. After `--`, commander does not read this argument as an option.
    ...(given.some((arg) => arg.startsWith("-")) ? ["--"] : []),
    ...given,
  ];
  return ["ugs", ...words.map(quoted)].join(" ");
}
