import { newProcess } from "@user-group-service/testing/opened";
import { type ProcessOptions, type RunningProcess, startProcess } from "@user-group-service/testing/process";

/** A command on a pseudo-terminal with 80 columns. The input `\x03` is Ctrl-C. */
export interface TerminalSession extends RunningProcess {
  /** Returns the terminal's output so far. Lines end with `\n`. */
  screen(): string;
}

/**
 * Runs a command on a pseudo-terminal, which the program `script` of util-linux creates. The command receives the
 * variables TERM, PATH and HOME, and those in `env`. Stops the command after the test.
 */
export function newTerminal(command: string, { env, ...options }: ProcessOptions = {}): TerminalSession {
  const script = ["script", "-qefc", `stty cols 80 rows 24; exec ${command}`, "/dev/null"];
  const session = newProcess(startProcess(script, { ...options, env: { TERM: "xterm", ...env } }));
  return { ...session, screen: () => session.output().replaceAll("\r\n", "\n") };
}
