import type { Client } from "@connectrpc/connect";
import { http1 } from "@user-group-service/testing/http";
import { descendants, waitUntilGone } from "@user-group-service/testing/process";
import { RUNTIMES } from "@user-group-service/testing/runtime";
import { pause, waitFor } from "@user-group-service/testing/wait";
import { expect, it } from "vitest";
import type { AdminService } from "../gen/usergroup/admin/v1/admin_service_pb.ts";
import type { GetMetricsHistoryResponse } from "../gen/usergroup/admin/v1/metrics_pb.ts";
import { ApiEnvironmentTag } from "../gen/usergroup/v1/user_group_pb.ts";
import { ADMIN_ENV, adminOf, bearer, customerOf, issueToken } from "./support/admin.ts";
import { describeWithRedis, newServer, redisUrl } from "./support/opened.ts";
import { failureOf } from "./support/rpc.ts";

function add(sums: { [name: string]: number }, numbers: { readonly [name: string]: number } = {}) {
  for (const [name, number] of Object.entries(numbers)) sums[name] = (sums[name] ?? 0) + number;
}

function totalOf({ samples }: GetMetricsHistoryResponse) {
  const errors: { [name: string]: number } = {};
  const redis: { [name: string]: number } = {};
  for (const sample of samples) {
    add(errors, sample.errors);
    add(redis, sample.service?.redisRoundTrips);
  }
  return { calls: samples.reduce((sum, { calls }) => sum + calls, 0), errors, redis };
}

function historyWith(calls: number, admin: Client<typeof AdminService>, request: object = {}) {
  return waitFor(`the history has ${calls} calls`, async () => {
    const history = await admin.getMetricsHistory(request);
    if (totalOf(history).calls >= calls) return history;
    await pause(500);
    return undefined;
  });
}

describeWithRedis.each(RUNTIMES)("the metrics of the last hour on %s", (runtime) => {
  it("GetMetricsHistory counts the calls of all workers, even of exited workers, for each method and environment", async () => {
    const server = await newServer({ runtime, redisUrl, env: { ...ADMIN_ENV, WORKERS: "3" } });
    const root = adminOf(server.url);
    // Each request opens a connection, which any worker may accept.
    const get = (id: string, token = server.tokens.customer) =>
      http1(server.url, `/api/user?user_group_id=${id}`, { headers: bearer(token) });
    for (let i = 0; i < 30; i++) expect((await get("a")).status).toBe(200);
    for (let i = 0; i < 3; i++) expect((await get("b", server.tokens.testing)).status).toBe(200);
    for (let i = 0; i < 2; i++) expect((await get("a", "unknown-token-of-nobody")).status).toBe(401);
    expect(
      (await http1(server.url, "/api/user?user_group_id=", { headers: bearer(server.tokens.customer) })).status,
    ).toBe(400);
    const method = "GetUserGroup";
    const errors = { API_TOKEN_UNKNOWN: 2, VALIDATION_FAILED: 1 };
    const ofMethod = await historyWith(36, root, { method });
    expect(totalOf(ofMethod)).toMatchObject({ calls: 36, errors, redis: {} });
    const [busiest] = [...ofMethod.samples].sort((one, other) => other.calls - one.calls);
    expect(busiest?.p99?.nanos).toBeGreaterThan(0);

    const all = await root.getMetricsHistory({});
    expect(totalOf(all)).toMatchObject({ errors });
    expect(totalOf(all).redis["get"] ?? 0).toBeGreaterThanOrEqual(33);
    expect(all.samples.some(({ service }) => service?.workers === 3)).toBe(true);
    expect(all.methods.find((each) => each.method === method)).toMatchObject({ calls: 36, failedCalls: 3 });
    const environment = customerOf(server);
    const testing = { name: server.environment, tag: ApiEnvironmentTag.TESTING };
    expect(all.environments).toMatchObject([
      { environment, calls: 31, failedCalls: 1 },
      { environment: testing, calls: 3, failedCalls: 0 },
    ]);
    const ofTesting = await root.getMetricsHistory({ environment: testing });
    expect(totalOf(ofTesting)).toMatchObject({ calls: 3, errors: {}, redis: {} });
    expect([ofTesting.methods.length > 0, ofTesting.environments.length]).toEqual([true, 2]);
    const [last] = all.samples.slice(-1);
    expect((await root.getMetricsHistory({ startTime: last?.endTime })).samples.length).toBeLessThan(3);

    // If the caller uses an API token, the history contains only calls in the environment of that token.
    const own = adminOf(server.url, (await issueToken(server, "admin")).token);
    expect(totalOf(await own.getMetricsHistory({}))).toMatchObject({ calls: 31, redis: {} });
    const ofOwn = await own.getMetricsHistory({ environment });
    expect([ofOwn.methods, ofOwn.environments]).toEqual([[], []]);
    const denied = async (request: object, admin = own) => failureOf(admin.getMetricsHistory(request));
    expect(await denied({ environment: testing })).toEqual({ code: "PermissionDenied", reason: "OTHER_ENVIRONMENT" });
    expect(await denied({ method })).toEqual({ code: "PermissionDenied", reason: "ROLE_TOO_LOW" });
    const manage = adminOf(server.url, (await issueToken(server, "manage")).token);
    expect(await denied({}, manage)).toEqual({ code: "PermissionDenied", reason: "ROLE_TOO_LOW" });
    const invalid = { code: "InvalidArgument", reason: "VALIDATION_FAILED" };
    expect(await denied({ method, environment }, root)).toEqual(invalid);
    expect(await denied({ method: "x".repeat(65) }, root)).toEqual(invalid);

    const [victim = 0] = descendants(server.pid);
    process.kill(victim, "SIGKILL");
    await waitUntilGone(victim);
    // A request on a connection of the killed worker fails, so the test repeats the request.
    const answer = () =>
      adminOf(server.url)
        .getMetricsHistory({ method })
        .catch(() => undefined);
    const left = await waitFor("another worker answers", answer);
    expect(totalOf(left).calls).toBe(36);
  });
});
