import type { RunningProcess } from "../process.ts";

/**
 * Returns at most five unexpected lines of a server's output: log entries with the level `error` or `fatal`, and lines
 * that are not JSON.
 */
export function unexpectedIn(server: Pick<RunningProcess, "output">): string[] {
  const unexpected = (line: string) => {
    if (line.includes("Permissions in the config file") || line.trim() === "") return false;
    return !line.startsWith("{") || /"level":"(?:error|fatal)"/.test(line);
  };
  // The last line may be incomplete.
  return server.output().split("\n").slice(0, -1).filter(unexpected).slice(0, 5);
}
