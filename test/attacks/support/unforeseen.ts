import type { TestServer } from "../../support/server.ts";

/** What a server has written that nobody foresaw. */
export function unforeseenIn(server: Pick<TestServer, "output">): string[] {
  return server
    .output()
    .split("\n")
    .filter((line) => {
      if (line.includes("Permissions in the config file") || line.trim() === "") return false;
      return !line.startsWith("{") || /"level":"(?:error|fatal)"/.test(line);
    })
    .slice(0, 5);
}
