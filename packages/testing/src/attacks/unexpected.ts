import type { RunningProcess } from "../process.ts";

/**
 * Unexpected output of a server: errors, and lines that are not log lines.
 *
 * @param known expected lines
 */
export function unexpectedIn(server: Pick<RunningProcess, "output">, known?: RegExp): string[] {
  const unexpected = (line: string) => {
    if (line.includes("Permissions in the config file") || line.trim() === "" || known?.test(line)) return false;
    return !line.startsWith("{") || /"level":"(?:error|fatal)"/.test(line);
  };
  // The last line may be incomplete.
  return server.output().split("\n").slice(0, -1).filter(unexpected).slice(0, 5);
}
