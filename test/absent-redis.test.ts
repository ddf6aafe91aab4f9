import { beforeAll, describe, expect, it } from "vitest";
import { newLaunched } from "./support/opened.ts";
import { type LaunchedServer, RUNTIMES, type ServerOptions, TOKEN_KEYS } from "./support/server.ts";
import { freePort } from "./support/wait.ts";

let port: number;
beforeAll(async () => {
  port = await freePort();
});

/** Starts a server whose Redis is not there. */
function start({ env, ...options }: ServerOptions): LaunchedServer {
  const settings = { REDIS_URL: "redis://127.0.0.1:1", TOKEN_KEYS, API_TOKENS: "e=0123456789abcdef", ...env };
  return newLaunched({ ...options, env: settings });
}

// Each waits for seconds whether Redis comes: all of them together.
describe.concurrent("where no Redis is", () => {
  it.each(RUNTIMES)("a server on %s says so, and ends with 1", async (runtime) => {
    const server = start({ runtime, env: { REDIS_TIMEOUT: "200ms" } });
    expect(await server.exited()).toBe(1);
    expect(server.output()).toMatch(/cannot use Redis: .*ECONNREFUSED.*check REDIS_URL and that Redis runs/);
    expect(server.output()).not.toMatch(/\n\s+at /);
    expect(server.log().some(({ msg }) => msg === "listening")).toBe(false);
  });

  it("three workers say so once, and end with 1", async () => {
    const server = start({ env: { WORKERS: "3", LOG_LEVEL: "debug" } });
    expect(await server.exited()).toBe(1);
    const lines = server.output().split("\n");
    const sentences = lines.filter((line) => line !== "" && !line.startsWith("{"));
    expect(sentences).toEqual([expect.stringMatching(/^cannot use Redis: /)]);
  });

  it("deno serve says so, and ends", async () => {
    const server = start({ runtime: "deno-serve", env: { PORT: String(port) } });
    expect(await server.exited()).not.toBe(0);
    expect(server.output()).toContain("cannot use Redis");
  });
});
