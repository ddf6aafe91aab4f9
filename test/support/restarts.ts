import { freePort, waitFor } from "@user-group-service/testing/wait";
import { expect } from "vitest";
import { newServer, redisUrl } from "./opened.ts";
import type { TestServer } from "./server.ts";

export const CALLS = 2000;
const RESTARTS = 3;

/** Timeout of a call, in milliseconds. Even on a busy machine, the server restarts within this time. */
export const TIMEOUT_MS = 60_000;

export interface RestartedCalls {
  answered(): number;
  /** @returns the errors of failed calls */
  end(): Promise<readonly string[]>;
}

/**
 * Restarts a server several times on the same port, while a client makes calls. Each time, the server is stopped
 * gracefully.
 *
 * @returns the errors of failed calls
 */
export async function restartUnder(
  begin: (target: { readonly url: string; readonly token: string }) => RestartedCalls,
): Promise<readonly string[]> {
  const env = { PORT: String(await freePort()) };
  const first = await newServer({ redisUrl, env });
  let server: TestServer = first;
  const calls = begin({ url: first.url, token: first.tokens.customer });
  for (let i = 1; i <= RESTARTS + 1; i++) {
    await waitFor("the service responds to calls", () => calls.answered() >= (i * CALLS) / (RESTARTS + 1));
    if (i > RESTARTS) break;
    expect(await server.stop()).toBe(0);
    server = await newServer({ redisUrl, env, like: first });
  }
  return calls.end();
}
