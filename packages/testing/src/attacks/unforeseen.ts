import type { RunningProcess } from "../process.ts";

/**
 * What a server has written and should not have: errors, and what is no line of its log.
 *
 * @param known lines that are no news
 */
export function unforeseenIn(server: Pick<RunningProcess, "output">, known?: RegExp): string[] {
  const unforeseen = (line: string) => {
    if (line.includes("Permissions in the config file") || line.trim() === "" || known?.test(line)) return false;
    return !line.startsWith("{") || /"level":"(?:error|fatal)"/.test(line);
  };
  // The last line may not be whole yet.
  return server.output().split("\n").slice(0, -1).filter(unforeseen).slice(0, 5);
}
