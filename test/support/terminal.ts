import { newProcess } from "@user-group-service/testing/opened";
import { type ProcessOptions, type RunningProcess, startProcess } from "@user-group-service/testing/process";

/** A command on a pseudo-terminal with 80 columns. Type `\x03` for Ctrl-C. */
export interface TerminalSession extends RunningProcess {
  /**
   * Output of the terminal so far. Lines end with `
   * `.
   */
  screen(): string;
}

/**
 * Runs a command on a pseudo-terminal, by `script` of util-linux, with only these environment variables. The command
 * ends with the test.
 */
export function newTerminal(command: string, { env, ...options }: ProcessOptions = {}): TerminalSession {
  const script = ["script", "-qefc", `stty cols 80 rows 24; exec ${command}`, "/dev/null"];
  const session = newProcess(startProcess(script, { ...options, env: { TERM: "xterm", ...env } }));
  return { ...session, screen: () => session.output().replaceAll("\r\n", "\n") };
}
