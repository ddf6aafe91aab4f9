import { newProcess } from "@user-group-service/testing/opened";
import { type ProcessOptions, type RunningProcess, startProcess } from "@user-group-service/testing/process";

/** A command on a pseudo-terminal of its own, 80 columns wide; `\x03` typed there is Ctrl-C. */
export interface TerminalSession extends RunningProcess {
  /** What the terminal was sent so far; lines end with `\n`. */
  screen(): string;
}

/** Runs a command on a terminal, by `script` of util-linux, with these settings alone; it ends with the test. */
export function newTerminal(command: string, { env, ...options }: ProcessOptions = {}): TerminalSession {
  const script = ["script", "-qefc", `stty cols 80 rows 24; exec ${command}`, "/dev/null"];
  const session = newProcess(startProcess(script, { ...options, env: { TERM: "xterm", ...env } }));
  return { ...session, screen: () => session.output().replaceAll("\r\n", "\n") };
}
