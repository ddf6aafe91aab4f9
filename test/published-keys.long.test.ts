import type { ClientHttp2Session } from "node:http2";
import { http1, http2On, openHttp2 } from "@user-group-service/testing/http";
import { closeLater } from "@user-group-service/testing/opened";
import { RUNTIMES } from "@user-group-service/testing/runtime";
import { waitFor } from "@user-group-service/testing/wait";
import { expect, it } from "vitest";
import { MAX_KEY_REQUESTS } from "../src/domain/capacity.ts";
import { ADMIN_ENV, adminOf, newName } from "./support/admin.ts";
import { describeWithRedis, newRedis, newServer } from "./support/opened.ts";
import type { TestServer } from "./support/server.ts";

/** Number of connections, and the maximum number of streams on each connection. */
const [CONNECTIONS, STREAMS] = [48, 100];

const pathOf = (environment: string) => `/e/${environment}/.well-known/jwks.json`;

async function newEnvironments({ url }: TestServer, count: number): Promise<string[]> {
  const names = Array.from({ length: count }, newName);
  for (const name of names) {
    await adminOf(url).createEnvironment({ environment: { name } });
    await adminOf(url).rotateSigningKey({ environment: { name } });
  }
  return names;
}

/**
 * Requests keys on all streams of all connections concurrently.
 *
 * @returns the number of responses by status and reason
 */
async function burst(sessions: readonly ClientHttp2Session[], environmentOf: (i: number) => string) {
  const counts: { [outcome: string]: number } = {};
  const requests = sessions.flatMap((session, i) =>
    Array.from({ length: STREAMS }, (_, j) => http2On(session, pathOf(environmentOf(i * STREAMS + j)))),
  );
  for (const { status, headers, json } of await Promise.all(requests)) {
    expect(headers["cache-control"]).toBe(status === 200 ? "public, max-age=600" : "no-store");
    const { error } = json<{ error?: { reason: string } }>();
    const outcome = error ? `${status} ${error.reason}` : String(status);
    counts[outcome] = (counts[outcome] ?? 0) + 1;
  }
  return counts;
}

function newSessions({ url }: TestServer): ClientHttp2Session[] {
  return Array.from({ length: CONNECTIONS }, () => {
    const session = openHttp2(url);
    closeLater(() => session.destroy());
    return session;
  });
}

describeWithRedis.each(RUNTIMES)("/.well-known/jwks.json on %s", (runtime) => {
  it("published keys are served although an unauthenticated client at the same address has guessed names of environments", async () => {
    const redis = await newRedis();
    const env = { ...ADMIN_ENV, AUTH_FAILURE_LIMIT: "60/1m", PUBLIC_URL: "https://groups.example.com" };
    const maker = await newServer({ redisUrl: redis.url, env });
    const names = await newEnvironments(maker, 20);
    // This server has cached none of the keys.
    const server = await newServer({ runtime, redisUrl: redis.url, env, like: maker });
    const half = newSessions(server).slice(CONNECTIONS / 2);
    const guesses = (CONNECTIONS * STREAMS) / 2;
    for (const word of ["a", "b"])
      expect(await burst(half, (i) => `${word}${i}`)).toEqual({ "404 KEYS_NOT_FOUND": guesses });
    const answers = await Promise.all(names.map((name) => http1(server.url, pathOf(name))));
    expect(answers.map(({ status }) => status)).toEqual(names.map(() => 200));
    const [late = ""] = await newEnvironments(maker, 1);
    await waitFor("new keys are published", async () => (await http1(server.url, pathOf(late))).status === 200);
  });

  it("published keys are served from the cache while Redis hangs, and only MAX_KEY_REQUESTS requests for uncached keys wait for Redis", async () => {
    const redis = await newRedis();
    // All requests must arrive before the first request fails.
    const limits = { AUTH_FAILURE_LIMIT: "off", REDIS_TIMEOUT: "5s" };
    const env = { ...ADMIN_ENV, ...limits, PUBLIC_URL: "https://groups.example.com" };
    const server = await newServer({ runtime, redisUrl: redis.url, env });
    const names = await newEnvironments(server, 3);
    const answers = () => Promise.all(names.map(async (name) => (await http1(server.url, pathOf(name))).status));
    expect(await answers()).toEqual([200, 200, 200]);
    const sessions = newSessions(server);
    redis.freeze();
    const guesses = burst(sessions, (i) => `guess${i}`);
    expect(await answers()).toEqual([200, 200, 200]);
    const { "503 STORE_UNAVAILABLE": waited = 0, ...others } = await guesses;
    expect(waited).toBe(MAX_KEY_REQUESTS);
    expect(others).toEqual({ "503 OVERLOADED": CONNECTIONS * STREAMS - waited });
    expect(await answers()).toEqual([200, 200, 200]);
    redis.thaw();
    await waitFor("guesses are answered again", async () => (await http1(server.url, pathOf("guess"))).status === 404);
  });
});
