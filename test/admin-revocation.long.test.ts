import { isDeepStrictEqual } from "node:util";
import { forSuite } from "@user-group-service/testing/opened";
import { RUNTIMES } from "@user-group-service/testing/runtime";
import { waitFor } from "@user-group-service/testing/wait";
import { Redis } from "ioredis";
import { beforeAll, expect, it } from "vitest";
import { apiTokenDigest, newApiToken } from "../src/domain/token.ts";
import { REVOKED_CHANNEL } from "../src/store/keys.ts";
import { ADMIN_ENV, adminOf, customerOf, issueToken } from "./support/admin.ts";
import { describeWithRedis, newOperator, newRedis, newServer, patient, suiteRedis } from "./support/opened.ts";
import { metricOf, waitForSubscriptions } from "./support/operations.ts";
import { failureOf, grpcClients } from "./support/rpc.ts";
import { type ServerOptions, startServer, type TestServer } from "./support/server.ts";
import { keyOfApiToken } from "./support/stored-keys.ts";

/** Sends an invalid request, so that the service reads only the API token from Redis. Returns the code of the error. */
async function attempt(server: TestServer, token: string): Promise<string> {
  return (await failureOf(grpcClients(server, token).viewers.resolveViewer({ token: "" }))).code;
}

const ACCEPTED = "InvalidArgument";
const REFUSED = "Unauthenticated";

async function endSilently(redis: Redis, token: string): Promise<void> {
  expect(await redis.del(await keyOfApiToken(redis, token))).toBe(1);
}

async function tokenReads(server: TestServer): Promise<number> {
  return (await metricOf(server, "ugs_redis_duration_seconds_count", { operation: "api-token" })) ?? 0;
}

describeWithRedis.each(RUNTIMES)("revoked and unknown API tokens on %s", (runtime) => {
  const redis = suiteRedis();
  const operator = forSuite(
    () => new Redis(redis.url).on("error", () => {}),
    (opened) => opened.disconnect(),
  );
  const options = (): ServerOptions =>
    patient({ runtime, redisUrl: redis.url, env: { ...ADMIN_ENV, API_TOKEN_CACHE: "24h" } });
  const both = forSuite(
    async () => {
      const one = await startServer(options());
      return [one, await startServer({ ...options(), like: one })] as const;
    },
    async (servers) => {
      for (const server of servers) expect(await server.stop()).toBe(0);
    },
  );
  beforeAll(async () => {
    await waitForSubscriptions(operator, 2);
  });

  async function cachedToken() {
    const [one, two] = [both[0], both[1]];
    const issued = await issueToken(one, "resolve");
    for (const server of [one, two]) expect(await attempt(server, issued.token)).toBe(ACCEPTED);
    return { ...issued, one, two };
  }
  const refusedBy = (server: TestServer, token: string) =>
    waitFor("the token is rejected", async () => (await attempt(server, token)) === REFUSED);
  /**
   * Repeats an action until both workers are subscribed to revocations during the whole action. If the subscription of
   * a worker ends, for example because Redis froze for a second, the worker clears its cache. In this case, the result
   * of the action proves nothing.
   */
  async function whileSubscribed<T>(make: () => Promise<T>): Promise<T> {
    const subscribers = async () => {
      const clients = String(await operator.client("LIST", "TYPE", "PUBSUB"));
      return [...clients.matchAll(/^id=\d+/gm)].map(String);
    };
    for (;;) {
      await waitForSubscriptions(operator, 2);
      const before = await subscribers();
      const made = await make();
      if (isDeepStrictEqual(await subscribers(), before)) return made;
    }
  }

  it("every worker rejects a revoked API token before API_TOKEN_CACHE has elapsed", async () => {
    for (let i = 0; i < 5; i++) {
      const { token, id, one, two } = await cachedToken();
      const other = await cachedToken();
      await adminOf(one.url).revokeApiToken({ environment: customerOf(one), apiTokenId: id });
      expect(await attempt(one, token)).toBe(REFUSED);
      await refusedBy(two, token);
      for (const server of [one, two]) expect(await attempt(server, other.token)).toBe(ACCEPTED);
    }
  });

  it("a worker accepts a cached API token until the worker receives the revocation", async () => {
    const { token, one, two, outcomes } = await whileSubscribed(async () => {
      const cached = await cachedToken();
      await endSilently(operator, cached.token);
      const outcomes = [await attempt(cached.one, cached.token), await attempt(cached.two, cached.token)];
      return { ...cached, outcomes };
    });
    expect(outcomes).toEqual([ACCEPTED, ACCEPTED]);
    await operator.publish(REVOKED_CHANNEL, apiTokenDigest(token));
    for (const server of [one, two]) await refusedBy(server, token);
  });

  it("a worker that had no subscription during the revocation rejects the revoked API token", async () => {
    const { token, one, two } = await cachedToken();
    const key = await keyOfApiToken(operator, token);
    // Close the subscriptions and delete the token in one transaction, so that no worker receives the revocation.
    const killed = await operator.multi().client("KILL", "TYPE", "pubsub").del(key).exec();
    expect(killed?.map(([, count]) => count)).toEqual([2, 1]);
    for (const server of [one, two]) await refusedBy(server, token);
    await waitForSubscriptions(operator, 2);
    const next = await cachedToken();
    await adminOf(two.url).revokeApiToken({ environment: customerOf(two), apiTokenId: next.id });
    await refusedBy(one, next.token);
  });

  it("a revoked API token is rejected even if calls were in flight during the revocation", async () => {
    const [one, two] = [both[0], both[1]];
    const issued = await Promise.all(Array.from({ length: 20 }, () => issueToken(one, "resolve")));
    await Promise.all(
      issued.map(async ({ token, id }, i) => {
        const calls = Array.from({ length: 6 }, (_, n) => attempt(n % 2 === 0 ? one : two, token));
        const revoker = i % 2 === 0 ? one : two;
        await adminOf(revoker.url).revokeApiToken({ environment: customerOf(one), apiTokenId: id });
        expect(await attempt(revoker, token)).toBe(REFUSED);
        for (const outcome of await Promise.all(calls)) expect([ACCEPTED, REFUSED]).toContain(outcome);
      }),
    );
    for (const { token } of issued) for (const server of [one, two]) await refusedBy(server, token);
  });

  it("many calls with the same unknown API token cause only one Redis read", async () => {
    const one = both[0];
    const known = await issueToken(one, "resolve");
    const made = await whileSubscribed(async () => {
      const isKnown = async () => (await attempt(one, known.token)) === ACCEPTED;
      const wasKnown = await isKnown();
      const before = await tokenReads(one);
      const guess = newApiToken();
      const outcomes = await Promise.all(Array.from({ length: 20 }, () => attempt(one, guess)));
      for (let i = 0; i < 20; i++) outcomes.push(await attempt(one, guess));
      for (const malformed of [guess.slice(0, -1), `${guess}0`, `${guess.slice(0, -1)}!`, "ugk_", "x".repeat(42)]) {
        outcomes.push(await attempt(one, malformed));
      }
      return {
        known: [wasKnown, await isKnown()],
        outcomes: new Set(outcomes),
        reads: (await tokenReads(one)) - before,
      };
    });
    expect(made).toEqual({ known: [true, true], outcomes: new Set([REFUSED]), reads: 1 });
  });
});

describeWithRedis.each(RUNTIMES)("API_TOKEN_CACHE on %s", (runtime) => {
  const start = async (API_TOKEN_CACHE: string, more: { readonly [name: string]: string } = {}) => {
    const redis = await newRedis();
    const server = await newServer({ runtime, redisUrl: redis.url, env: { ...ADMIN_ENV, API_TOKEN_CACHE, ...more } });
    const issued = await issueToken(server, "resolve");
    expect(await attempt(server, issued.token)).toBe(ACCEPTED);
    return { redis, server, ...issued };
  };

  it("API_TOKEN_CACHE limits how long a worker accepts a revoked API token if the revocation is not published", async () => {
    const { redis, server, token } = await start("1s");
    await endSilently(newOperator(redis), token);
    await waitFor("the token is rejected", async () => (await attempt(server, token)) === REFUSED);
  });

  it("with API_TOKEN_CACHE=0s, a revoked API token is rejected immediately, even if the revocation is not published", async () => {
    const { redis, server, token } = await start("0s");
    await endSilently(newOperator(redis), token);
    expect(await attempt(server, token)).toBe(REFUSED);
  });

  it("API_TOKEN_CACHE limits how long a worker accepts cached API tokens while Redis is unavailable", async () => {
    const { redis, server, token } = await start("2s", { REDIS_TIMEOUT: "1s" });
    redis.freeze();
    // The service needs no Redis to check a token of the setting API_TOKENS.
    expect(await attempt(server, server.tokens.customer)).toBe(ACCEPTED);
    await waitFor("the cache entry has expired", async () => (await attempt(server, token)) === "Unavailable");
    redis.thaw();
    await waitFor("the worker has read the token again", async () => (await attempt(server, token)) === ACCEPTED);
    await redis.kill();
    await waitFor("the cache entry has expired", async () => (await attempt(server, token)) === "Unavailable");
    const change = grpcClients(server, token).viewers.resolveViewer({ token: "x" });
    expect(await failureOf(change)).toEqual({ code: "Unavailable", reason: "STORE_UNAVAILABLE" });
  });

  it("API_TOKEN_CACHE limits how long a worker accepts a revoked API token if Redis forbids SUBSCRIBE", async () => {
    const redis = await newRedis();
    await newOperator(redis).acl("SETUSER", "narrow", "on", ">secret", "~ug:*", "resetchannels", "+@all");
    const url = redis.url.replace("//", "//narrow:secret@");
    const server = await newServer({ runtime, redisUrl: url, env: { ...ADMIN_ENV, API_TOKEN_CACHE: "1s" } });
    await waitFor("the warning is logged", () =>
      server.log().some(({ level, msg }) => level === "warn" && msg.includes("ug:revoked")),
    );
    const { token, id } = await issueToken(server, "resolve");
    const other = await newServer({ runtime, redisUrl: url, like: server, env: { API_TOKEN_CACHE: "1s" } });
    for (const one of [server, other]) expect(await attempt(one, token)).toBe(ACCEPTED);
    await adminOf(server.url).revokeApiToken({ environment: customerOf(server), apiTokenId: id });
    expect(await attempt(server, token)).toBe(REFUSED);
    await waitFor("the token is rejected", async () => (await attempt(other, token)) === REFUSED);
  });
});

describeWithRedis("several workers", () => {
  it("workers of one port receive each other's revocations", async () => {
    const redis = await newRedis();
    const env = { ...ADMIN_ENV, API_TOKEN_CACHE: "24h", WORKERS: "2" };
    const server = await newServer({ redisUrl: redis.url, env });
    const operator = newOperator(redis);
    await waitForSubscriptions(operator, 2);
    const { token, id } = await issueToken(server, "resolve");
    // Each call opens a new connection, so the calls reach both workers.
    const outcomes = () => Promise.all(Array.from({ length: 6 }, () => attempt(server, token)));
    expect(new Set(await outcomes())).toEqual(new Set([ACCEPTED]));
    await adminOf(server.url).revokeApiToken({ environment: customerOf(server), apiTokenId: id });
    await waitFor("all workers reject the token", async () =>
      (await outcomes()).every((outcome) => outcome === REFUSED),
    );
  });
});
