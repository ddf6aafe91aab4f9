import { type CommandProps, commandText } from "./command-text.ts";
import { CopyButton } from "./copy.tsx";

/** Shows the `ugs` command that does the same. */
export function CommandLine(props: CommandProps) {
  const text = commandText(props);
  return (
    <p class="command small">
      On the command line: <code>{text}</code> <CopyButton text={text} what="the command" />
    </p>
  );
}
