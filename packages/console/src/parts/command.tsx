import { Terminal } from "lucide-preact";
import { type CommandProps, commandText } from "./command-text.ts";
import { CopyButton } from "./copy.tsx";

/** Shows the `ugs` command that does the same as the page or the dialog. */
export function CommandLine(props: CommandProps) {
  const text = commandText(props);
  return (
    <div class="command small">
      <Terminal aria-hidden />
      <span class="unseen">On the command line: </span>
      <code>{text}</code>
      <CopyButton text={text} what="the command" />
    </div>
  );
}
