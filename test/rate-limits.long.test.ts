import { ConnectError } from "@connectrpc/connect";
import { http1, rawBytes } from "@user-group-service/testing/http";
import { RUNTIMES } from "@user-group-service/testing/runtime";
import { waitFor } from "@user-group-service/testing/wait";
import { describe, expect, it } from "vitest";
import { ErrorInfoSchema, RetryInfoSchema } from "../gen/google/rpc/error_details_pb.ts";
import { UserGroupService } from "../gen/usergroup/v1/user_group_service_pb.ts";
import { ADMIN_CLIENTS, ADMIN_ENV, adminOf, bearer, issueToken, openAdminTransport } from "./support/admin.ts";
import { describeWithRedis, newMonitor, newRedis, newServer } from "./support/opened.ts";
import { metricsOf } from "./support/operations.ts";
import { expectConnectError, expectRestError } from "./support/rest-shape.ts";
import type { TestServer } from "./support/server.ts";

const WINDOW = "/24h";
const WINDOW_SECONDS = 86_400;

const REST = "/api/user?user_group_id=";
const LIMITED = { status: 429, code: "resource_exhausted", reason: "RATE_LIMITED" };

const get = ({ url }: TestServer, token: string, id = "a") => http1(url, REST + id, { headers: bearer(token) });

async function statuses(server: TestServer, token: string, times: number, id = "a"): Promise<number[]> {
  const found: number[] = [];
  for (let i = 0; i < times; i++) found.push((await get(server, token, id)).status);
  return found;
}

/**
 * Returns the total number of calls that INCRBY commands have counted. The last argument of each command is the number
 * of calls that the command adds to the count.
 */
function sumOf(commands: readonly string[]): number {
  return commands.map((command) => Number(command.split(" ").at(-1))).reduce((sum, n) => sum + n, 0);
}

function secondsIn(header: (name: string) => string | null | undefined, max: number): number {
  const seconds = Number(header("retry-after"));
  expect(seconds).toBeGreaterThan(WINDOW_SECONDS / 2);
  expect(seconds).toBeLessThanOrEqual(WINDOW_SECONDS);
  expect(header("ratelimit-policy")).toBe(`"api-token";q=${max};w=${WINDOW_SECONDS}`);
  expect(header("ratelimit")).toBe(`"api-token";r=0;t=${seconds}`);
  return seconds;
}

describe.each(RUNTIMES)("the limit of an API token on %s", (runtime) => {
  it("permits RATE_LIMIT calls, and the errors for later calls contain the time to wait", async () => {
    const server = await newServer({ runtime, env: { ...ADMIN_ENV, RATE_LIMIT: `3${WINDOW}` } });
    const { customer, testing } = server.tokens;
    expect(await statuses(server, customer, 3)).toEqual([200, 200, 200]);
    const answer = await get(server, customer);
    expectRestError(answer, LIMITED);
    secondsIn((name) => answer.headers[name] as string, 3);
    const body = { method: "POST", headers: { ...bearer(customer), "content-type": "application/json" }, body: "{}" };
    const connect = await http1(server.url, "/usergroup.v1.UserGroupService/GetUserGroup", body);
    expectConnectError(connect, "resource_exhausted", "RATE_LIMITED");
    secondsIn((name) => connect.headers[name] as string, 3);
    for (const options of ADMIN_CLIENTS) {
      const { transport, close } = openAdminTransport(server.url, options);
      const headers = bearer(customer);
      const call = transport.unary(UserGroupService.method.getUserGroup, undefined, undefined, headers, {});
      const error = ConnectError.from(await call.catch((thrown: unknown) => thrown));
      close();
      expect(error.findDetails(ErrorInfoSchema)[0]).toMatchObject({ reason: "RATE_LIMITED" });
      const seconds = secondsIn((name) => error.metadata.get(name), 3);
      expect(error.findDetails(RetryInfoSchema)[0]?.retryDelay?.seconds).toBe(BigInt(seconds));
    }
    // Each API token has its own limit. ADMIN_TOKEN has no limit.
    expect(await statuses(server, testing, 4)).toEqual([200, 200, 200, 429]);
    for (let i = 0; i < 5; i++) await adminOf(server.url).listEnvironments({});
    const { token } = await issueToken(server, "manage");
    expect(await statuses(server, token, 4)).toEqual([200, 200, 200, 429]);
    const metrics = await metricsOf(server);
    expect(metrics("ugs_limited_total", { limit: "api-token" })).toBe(4 + ADMIN_CLIENTS.length);
    expect(metrics("ugs_limited_total", { limit: "address" })).toBe(0);
    const line = await waitFor("the rejection is logged", () =>
      server.log().find(({ code, protocol }) => code === "resource_exhausted" && protocol === "grpc"),
    );
    expect(line).toMatchObject({ level: "debug", msg: "call refused", api_token_id: "static-customer" });
  });

  it("rejects a call before its body arrives", async () => {
    const server = await newServer({ runtime, env: { RATE_LIMIT: `1${WINDOW}` } });
    expect(await statuses(server, server.tokens.customer, 1)).toEqual([200]);
    const head = `PUT /api/user HTTP/1.1\r\nhost: x\r\nauthorization: Token ${server.tokens.customer}\r\ncontent-length: 1000000\r\n\r\n{`;
    const { bytes } = await rawBytes(server.url, head, (soFar) => soFar.includes("RATE_LIMITED"));
    expect(bytes.toString()).toMatch(/^HTTP\/1\.1 429 /);
  });

  it("counts rejected and failed calls", async () => {
    const server = await newServer({ runtime, env: { ...ADMIN_ENV, RATE_LIMIT: `3${WINDOW}` } });
    const { token } = await issueToken(server, "resolve");
    expect(await statuses(server, token, 4)).toEqual([403, 403, 403, 429]);
    const { status } = await http1(server.url, "/api/user", { method: "PUT", headers: bearer(server.tokens.customer) });
    expect(status).toBe(400);
    expect(await statuses(server, server.tokens.customer, 3)).toEqual([200, 200, 429]);
  });
});

describeWithRedis.each(RUNTIMES)("the limit of an API token, on Redis and %s", (runtime) => {
  it("the limit of an API token applies to all workers together", async () => {
    const redis = await newRedis();
    const env = { RATE_LIMIT: `6${WINDOW}` };
    const one = await newServer({ runtime, redisUrl: redis.url, env });
    const other = await newServer({ runtime, redisUrl: redis.url, env, like: one });
    const { customer } = one.tokens;
    const monitor = await newMonitor(redis);
    expect(await statuses(one, customer, 4)).toEqual([200, 200, 200, 200]);
    const isCounted = (command: string) => /^incrby ug:rate:api-token:/i.test(command);
    let counted = 0;
    await waitFor("all four calls are counted", async () => {
      counted += sumOf((await monitor.commands()).filter(isCounted));
      return counted === 4;
    });
    // The other worker counts its first call in Redis. The reply contains the shared count, but no call waits for the
    // reply. So the first call succeeds.
    expect(await statuses(other, customer, 1)).toEqual([200]);
    await waitFor("the other worker has sent its count to Redis", async () =>
      (await monitor.commands()).some(isCounted),
    );
    await waitFor("both workers reject the calls", async () => {
      const [first, second] = [await statuses(one, customer, 1), await statuses(other, customer, 1)];
      return first[0] === 429 && second[0] === 429;
    });
    expect(await statuses(one, customer, 2)).toEqual([429, 429]);
    for (const server of [one, other]) expect(await statuses(server, one.tokens.testing, 2)).toEqual([200, 200]);
  });

  it("prevents a caller above the limit from causing load on Redis or affecting other callers", async () => {
    const redis = await newRedis();
    const server = await newServer({ runtime, redisUrl: redis.url, env: { RATE_LIMIT: `20${WINDOW}` } });
    const { customer, testing } = server.tokens;
    const monitor = await newMonitor(redis);
    const isCounted = (command: string) => /^incrby ug:rate:/i.test(command);
    expect(await statuses(server, customer, 21, "limited")).toEqual([...Array(20).fill(200), 429]);
    // Create the group of the other caller, so that the calls below only read it.
    expect(await statuses(server, testing, 1, "served")).toEqual([200]);
    let counted = 0;
    await waitFor("the 20 calls and the call of the other caller are counted", async () => {
      counted += sumOf((await monitor.commands()).filter(isCounted));
      return counted === 21;
    });
    const flood = Promise.all(Array.from({ length: 10 }, () => statuses(server, customer, 50, "limited")));
    const served: number[] = [];
    for (let i = 0; i < 10; i++) served.push(...(await statuses(server, testing, 1, "served")));
    expect(served).toEqual(Array(10).fill(200));
    expect(new Set((await flood).flat())).toEqual(new Set([429]));
    // The service may count the tenth call after it has responded to the call.
    const all: string[] = [];
    await waitFor("the calls of the other caller are counted", async () => {
      all.push(...(await monitor.commands()));
      return sumOf(all.filter(isCounted)) === 10;
    });
    expect(all.some((command) => command.includes(":group:served"))).toBe(true);
    expect(all.filter((command) => command.includes("limited"))).toEqual([]);
    expect(all.filter((command) => command.includes("static-customer"))).toEqual([]);
    // Each call of the other caller needs one read. In a slow run, the service also reads the records of the
    // environments in API_TOKENS again.
    const reads = all.filter((command) => /^hgetall /i.test(command) && !command.endsWith(":environment"));
    expect(reads).toHaveLength(10);
  });
});

describe("without RATE_LIMIT", () => {
  it("no call is counted or limited", async () => {
    const server = await newServer();
    expect(new Set(await statuses(server, server.tokens.customer, 50))).toEqual(new Set([200]));
    const { headers } = await get(server, server.tokens.customer);
    expect(Object.keys(headers).filter((name) => /ratelimit|retry/.test(name))).toEqual([]);
  });
});
