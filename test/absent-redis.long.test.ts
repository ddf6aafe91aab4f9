import { forSuite } from "@user-group-service/testing/opened";
import { RUNTIMES } from "@user-group-service/testing/runtime";
import { freePort } from "@user-group-service/testing/wait";
import { describe, expect, it } from "vitest";
import { type LaunchedServer, launch, type ServerOptions, TOKEN_KEYS } from "./support/server.ts";

/** Starts a server whose Redis is not there. */
function launched({ env, ...options }: ServerOptions): LaunchedServer {
  const settings = { REDIS_URL: "redis://127.0.0.1:1", TOKEN_KEYS, API_TOKENS: "e=0123456789abcdef" };
  return forSuite(
    async () => launch({ ...options, env: { PORT: String(await freePort()), ...settings, ...env } }),
    (server) => server.stop(),
  );
}

// Each waits for seconds whether Redis comes: they are all started before the first is looked at.
describe("where no Redis is", () => {
  const alone = RUNTIMES.map((runtime) => [runtime, launched({ runtime, env: { REDIS_TIMEOUT: "200ms" } })] as const);
  const workers = launched({ env: { WORKERS: "3", LOG_LEVEL: "debug" } });

  it.each(alone)("a server on %s says so, and ends with 1", async (_runtime, server) => {
    expect(await server.exited()).toBe(1);
    expect(server.output()).toMatch(/cannot use Redis: .*ECONNREFUSED.*check REDIS_URL and that Redis runs/);
    expect(server.output()).not.toMatch(/\n\s+at /);
    expect(server.log().some(({ msg }) => msg === "listening")).toBe(false);
  });

  it("three workers say so once, and end with 1", async () => {
    expect(await workers.exited()).toBe(1);
    const lines = workers.output().split("\n");
    const sentences = lines.filter((line) => line !== "" && !line.startsWith("{"));
    expect(sentences).toEqual([expect.stringMatching(/^cannot use Redis: /)]);
  });
});
