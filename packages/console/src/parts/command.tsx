import { Terminal } from "lucide-preact";
import { useSession } from "../session/session.ts";
import { type CommandProps, commandText } from "./command-text.ts";
import { CopyButton } from "./copy.tsx";

/**
 * Shows the `ugs` command that does the same as the page or the dialog. If `env` is missing and the user has signed in
 * with `ADMIN_TOKEN`, the command uses the environment of the page.
 */
export function CommandLine(props: CommandProps) {
  const { env } = useSession();
  const text = commandText({ env, ...props });
  return (
    <div class="command small">
      <Terminal aria-hidden />
      <span class="unseen">On the command line: </span>
      <code>{text}</code>
      <CopyButton text={text} what="the command" />
    </div>
  );
}
