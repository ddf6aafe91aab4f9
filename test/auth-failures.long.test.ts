import { ConnectError } from "@connectrpc/connect";
import { type HttpAnswer, http1, http2, http2On, openHttp2 } from "@user-group-service/testing/http";
import { RUNTIMES } from "@user-group-service/testing/runtime";
import { waitFor } from "@user-group-service/testing/wait";
import { describe, expect, inject, it } from "vitest";
import { ErrorInfoSchema, RetryInfoSchema } from "../gen/google/rpc/error_details_pb.ts";
import { UserGroupService } from "../gen/usergroup/v1/user_group_service_pb.ts";
import { newApiToken } from "../src/domain/token.ts";
import { ADMIN_CLIENTS, ADMIN_ENV, ADMIN_TOKEN, bearer, issueToken, openAdminTransport } from "./support/admin.ts";
import { describeWithRedis, newMonitor, newOperator, newRedis, newServer } from "./support/opened.ts";
import { metricsOf } from "./support/operations.ts";
import { expectConnectError, expectRestError } from "./support/rest-shape.ts";
import type { ServerOptions, TestServer } from "./support/server.ts";
import { keyOfApiToken } from "./support/stored-keys.ts";

const LIMIT = { AUTH_FAILURE_LIMIT: "3/24h" };
const TARGET = "/api/user?user_group_id=a";
const LIMITED = { status: 429, code: "resource_exhausted", reason: "TOO_MANY_FAILURES" };

type Headers = { readonly [name: string]: string };
const call = ({ url }: TestServer, headers: Headers) => http1(url, TARGET, { headers });
const guess = (server: TestServer, headers: Headers = {}) => call(server, { ...bearer(newApiToken()), ...headers });

const tokenReadsIn = (commands: readonly string[]) =>
  commands.filter((one) => /^hmget ug:\{\d+\}:environment state path/i.test(one));

async function guesses(server: TestServer, times: number, headers: Headers = {}): Promise<number[]> {
  const found: number[] = [];
  for (let i = 0; i < times; i++) found.push((await guess(server, headers)).status);
  return found;
}

function expectLimited(answer: HttpAnswer): void {
  expectRestError(answer, LIMITED);
  const seconds = Number(answer.headers["retry-after"]);
  expect(seconds).toBeGreaterThan(43_200);
  expect(answer.headers["ratelimit-policy"]).toBe('"address";q=3;w=86400');
  expect(answer.headers["ratelimit"]).toBe(`"address";r=0;t=${seconds}`);
  expect(answer.headers["www-authenticate"]).toBeUndefined();
}

describe.each(RUNTIMES)("authentication failures on %s", (runtime) => {
  const start = (env: Headers = {}, options: ServerOptions = {}) =>
    newServer({ runtime, ...options, env: { ...ADMIN_ENV, ...LIMIT, ...env } });

  it("failures count towards the limit regardless of their cause, and calls above the limit receive Retry-After", async () => {
    const server = await start();
    const failing: Headers[] = [{}, { authorization: "Basic eDp5" }, bearer("unknown-token-of-16")];
    for (const headers of failing) expect((await call(server, headers)).status).toBe(401);
    for (const headers of [...failing, bearer(newApiToken())]) expectLimited(await call(server, headers));
    const body = { method: "POST", headers: { "content-type": "application/json" }, body: "{" };
    const connect = await http1(server.url, "/usergroup.v1.UserGroupService/GetUserGroup", body);
    expectConnectError(connect, "resource_exhausted", "TOO_MANY_FAILURES");
    for (const options of ADMIN_CLIENTS) {
      const { transport, close } = openAdminTransport(server.url, options);
      const call = transport.unary(UserGroupService.method.getUserGroup, undefined, undefined, {}, {});
      const error = ConnectError.from(await call.catch((thrown: unknown) => thrown));
      close();
      expect(error.findDetails(ErrorInfoSchema)[0]).toMatchObject({ reason: "TOO_MANY_FAILURES" });
      const seconds = error.findDetails(RetryInfoSchema)[0]?.retryDelay?.seconds;
      expect(String(seconds)).toBe(error.metadata.get("retry-after"));
    }
    const metrics = await metricsOf(server);
    expect(metrics("ugs_limited_total", { limit: "address" })).toBe(5 + ADMIN_CLIENTS.length);
    expect(metrics("ugs_limited_total", { limit: "api-token" })).toBe(0);
    for (const path of ["/healthz", "/readyz", "/metrics"]) expect((await http1(server.url, path)).status).toBe(200);
  });

  it("failures do not affect callers with a valid API token at the same address", async () => {
    const server = await start({ API_TOKEN_CACHE: "0s" });
    const issued = await issueToken(server, "manage");
    expect((await call(server, bearer(issued.token))).status).toBe(200);
    expect(await guesses(server, 5)).toEqual([401, 401, 401, 429, 429]);
    // No API token is cached, so each call reads its API token from the store.
    for (let i = 0; i < 30; i++) {
      expect((await call(server, bearer(issued.token))).status).toBe(200);
      expect((await call(server, bearer(server.tokens.customer))).status).toBe(200);
      expect((await guess(server)).status).toBe(429);
    }
    // The service also accepts a token that was created after the failures.
    const fresh = await issueToken(server, "manage");
    expect((await call(server, bearer(fresh.token))).status).toBe(200);
    // An insufficient role is not an authentication failure.
    const low = await issueToken(server, "resolve");
    for (let i = 0; i < 5; i++) expect((await call(server, bearer(low.token))).status).toBe(403);
  });

  it("wrong values of ADMIN_TOKEN count as failures, but the correct ADMIN_TOKEN is accepted even if the limit is exceeded", async () => {
    const server = await start();
    const list = (token: string) =>
      http1(server.url, "/usergroup.admin.v1.AdminService/ListEnvironments", {
        method: "POST",
        headers: { ...bearer(token), "content-type": "application/json" },
        body: "{}",
      });
    const statuses = async (times: number, tokenOf: (i: number) => string) => {
      const found: number[] = [];
      for (let i = 0; i < times; i++) found.push((await list(tokenOf(i))).status);
      return found;
    };
    expect(await statuses(5, (i) => `${ADMIN_TOKEN}${i}`)).toEqual([401, 401, 401, 429, 429]);
    expect(await statuses(2, () => ADMIN_TOKEN)).toEqual([200, 200]);
    expectConnectError(await list(`${ADMIN_TOKEN}x`), "resource_exhausted", "TOO_MANY_FAILURES");
  });

  it("failures count for the address that a trusted proxy reports, not for an address that a client claims", async () => {
    const server = await start({ TRUSTED_PROXIES: "127.0.0.0/8, 10.0.0.0/8" });
    const by = (forwardedFor: string) => ({ "x-forwarded-for": forwardedFor });
    expect(await guesses(server, 4, by("203.0.113.1"))).toEqual([401, 401, 401, 429]);
    // A client can send X-Forwarded-For with any addresses, even with addresses of proxies. Each trusted proxy appends
    // the address of its client on the right. So addresses that the client claims are on the left, and must not count.
    expect(await guesses(server, 1, by("203.0.113.99, 203.0.113.1"))).toEqual([429]);
    expect(await guesses(server, 1, by("198.51.100.1, 203.0.113.1, 10.0.0.9"))).toEqual([429]);
    expect(await guesses(server, 1, by("::ffff:203.0.113.1"))).toEqual([429]);
    expect(await guesses(server, 4, by("203.0.113.2"))).toEqual([401, 401, 401, 429]);
    // All addresses of an IPv6 /64 network share one count.
    expect(await guesses(server, 2, by("2001:db8::1"))).toEqual([401, 401]);
    expect(await guesses(server, 2, by("2001:db8::ffff:0:1"))).toEqual([401, 429]);
    expect(await guesses(server, 1, by("2001:db8:0:1::1"))).toEqual([401]);
    expect(await guesses(server, 4)).toEqual([401, 401, 401, 429]);
  });

  it("failures count for the address of the connection if no proxy is trusted", async () => {
    const server = await start();
    for (let i = 0; i < 3; i++)
      expect(await guesses(server, 1, { "x-forwarded-for": `203.0.113.${i}` })).toEqual([401]);
    expect(await guesses(server, 1, { "x-forwarded-for": "203.0.113.9" })).toEqual([429]);
  });

  it("failures are not limited with AUTH_FAILURE_LIMIT=off", async () => {
    const server = await start({ AUTH_FAILURE_LIMIT: "off" });
    expect(new Set(await guesses(server, 70))).toEqual(new Set([401]));
  });

  it("failures are limited by default", async () => {
    const server = await start({ AUTH_FAILURE_LIMIT: "" });
    expect(new Set(await guesses(server, 60))).toEqual(new Set([401]));
    expect((await guess(server)).status).toBe(429);
  });
});

describeWithRedis.each(RUNTIMES)("authentication failures, on Redis and %s", (runtime) => {
  it("failures share one count per address, over HTTP/1.1, HTTP/2 and TLS, and on all workers", async () => {
    const redis = await newRedis();
    const env = { AUTH_FAILURE_LIMIT: "6/24h" };
    const servers = [
      await newServer({ runtime, redisUrl: redis.url, env }),
      await newServer({ runtime, redisUrl: redis.url, env, tls: inject("certificates") }),
    ] as const;
    const operator = newOperator(redis);
    const counted = async () => Number(await operator.get("ug:rate:address:127.0.0.1"));
    const headers = bearer(newApiToken());
    expect((await http1(servers[0].url, TARGET, { headers })).status).toBe(401);
    await waitFor("the failure over HTTP/1.1 is counted", async () => (await counted()) === 1);
    expect((await http2(servers[0].url, TARGET, { headers })).status).toBe(401);
    await waitFor("the failure over HTTP/2 is counted", async () => (await counted()) === 2);
    expect((await http2(servers[1].url, TARGET, { headers })).status).toBe(401);
    await waitFor("the failure over TLS is counted", async () => (await counted()) === 3);
    expect(await operator.keys("ug:rate:*")).toEqual(["ug:rate:address:127.0.0.1"]);
    // This worker itself has counted only two failures. Before this worker reads the shared count from Redis, it
    // answers at most four more guesses with 401.
    const rest = await Promise.all(Array.from({ length: 10 }, () => guess(servers[0])));
    expect(rest.filter(({ status }) => status === 429).length).toBeGreaterThanOrEqual(6);
    await waitFor("the other worker also rejects calls", async () => {
      const { status } = await http2(servers[1].url, TARGET, { headers });
      return status === 429;
    });
  });

  it("failed calls receive status 401 until the limit is reached, and then status 429, even if the calls are concurrent", async () => {
    const redis = await newRedis();
    const env = { ...ADMIN_ENV, AUTH_FAILURE_LIMIT: "20/24h", REDIS_TIMEOUT: "30s" };
    const server = await newServer({ runtime, redisUrl: redis.url, env });
    const monitor = await newMonitor(redis);
    redis.freeze();
    const sessions = Array.from({ length: 10 }, () => openHttp2(server.url));
    const sent = sessions.flatMap((session) =>
      Array.from({ length: 30 }, () => http2On(session, TARGET, { headers: bearer(newApiToken()) })),
    );
    // Send one more request on each connection. When the responses arrive, the server has received all calls. Only then
    // let Redis respond.
    for (const session of sessions) expect((await http2On(session, "/healthz")).status).toBe(200);
    redis.thaw();
    const statuses = (await Promise.all(sent)).map(({ status }) => status);
    for (const session of sessions) session.close();
    expect(statuses.filter((status) => status === 401)).toHaveLength(20);
    expect(statuses.filter((status) => status === 429)).toHaveLength(280);
    expect(tokenReadsIn(await monitor.commands())).toHaveLength(300);
  });

  it("each failed call causes one Redis read, and blocks no valid token, even after a restart of the service", async () => {
    const redis = await newRedis();
    const start = () => newServer({ runtime, redisUrl: redis.url, env: { ...ADMIN_ENV, ...LIMIT } });
    const first = await start();
    const tokens = await Promise.all(Array.from({ length: 10 }, () => issueToken(first, "manage")));
    expect(await guesses(first, 4)).toEqual([401, 401, 401, 429]);
    const server = await start();
    await waitFor("the limit is exceeded", async () => (await guess(server)).status === 429);
    const monitor = await newMonitor(redis);
    const flood = Promise.all(Array.from({ length: 10 }, () => guesses(server, 60)));
    for (const { token } of tokens) expect((await call(server, bearer(token))).status).toBe(200);
    expect(new Set((await flood).flat())).toEqual(new Set([429]));
    // The server writes the last use of a token to Redis a second after the use.
    const operator = newOperator(redis);
    const isNoted = async (token: string) => operator.hexists(await keyOfApiToken(operator, token), "last_use_time");
    for (const { token } of tokens) await waitFor("the use of the token is recorded", () => isNoted(token));
    expect(tokenReadsIn(await monitor.commands())).toHaveLength(600 + tokens.length);
    // The service does not look up malformed tokens in Redis. Above the limit, it does not count failures in Redis.
    for (let i = 0; i < 5; i++) expect((await call(server, bearer(`${newApiToken()}x`))).status).toBe(429);
    expect((await monitor.commands()).filter((command) => /ug:(?:\{\d+\}:api-token|rate:)/.test(command))).toEqual([]);
  });
});
