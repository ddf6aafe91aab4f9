import { freePort, waitFor } from "@user-group-service/testing/wait";
import { expect } from "vitest";
import { newServer, redisUrl } from "./opened.ts";
import type { TestServer } from "./server.ts";

/** How many calls a client makes while the service is restarted, and how often it is. */
export const CALLS = 2000;
const RESTARTS = 3;

/** How long a call may take, in milliseconds: longer than a restart takes on a busy machine. */
export const TIMEOUT_MS = 60_000;

/** Calls that a client makes until they have to end. */
export interface RestartedCalls {
  answered(): number;
  /** @returns the errors of calls that failed */
  end(): Promise<readonly string[]>;
}

/**
 * Stops a server gracefully and starts it again on the same port, several times while a client makes calls.
 *
 * @returns the errors of calls that failed
 */
export async function restartUnder(
  begin: (target: { readonly url: string; readonly token: string }) => RestartedCalls,
): Promise<readonly string[]> {
  const env = { PORT: String(await freePort()) };
  const first = await newServer({ redisUrl, env });
  let server: TestServer = first;
  const calls = begin({ url: first.url, token: first.tokens.customer });
  for (let i = 1; i <= RESTARTS + 1; i++) {
    await waitFor("calls are answered", () => calls.answered() >= (i * CALLS) / (RESTARTS + 1));
    if (i > RESTARTS) break;
    expect(await server.stop()).toBe(0);
    server = await newServer({ redisUrl, env, like: first });
  }
  return calls.end();
}
