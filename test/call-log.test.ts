import { type HttpRequest, http1 } from "@user-group-service/testing/http";
import { descendants } from "@user-group-service/testing/process";
import { RUNTIMES } from "@user-group-service/testing/runtime";
import { waitFor } from "@user-group-service/testing/wait";
import { beforeAll, describe, expect, it } from "vitest";
import { newApiToken, newUserGroupToken } from "../src/domain/token.ts";
import { ADMIN_TOKEN, bearer, issueToken } from "./support/admin.ts";
import { describeWithRedis, newOperator, newRedis, newServer, redisUrl, sharedServer } from "./support/opened.ts";
import { failureOf, grpcClients } from "./support/rpc.ts";
import type { LogLine, TestServer } from "./support/server.ts";

const RPC = "/usergroup.v1.UserGroupService";
const RESOLVE = "/usergroup.v1.ViewerService/ResolveViewer";

let lastRequest = 0;

async function lineOf(server: TestServer, path: string, request: HttpRequest): Promise<LogLine> {
  const id = `of-the-log-${++lastRequest}`;
  await http1(server.url, path, { method: "POST", ...request, headers: { ...request.headers, "x-request-id": id } });
  const lines = () => server.log().filter((line) => line["request_id"] === id);
  await waitFor("the call is logged", () => lines().length > 0);
  expect(lines()).toHaveLength(1);
  return lines()[0] as LogLine;
}

function whoIn({ environment, api_token_id, api_token_name, user_group_id, ...rest }: LogLine) {
  expect(Object.keys(rest)).not.toContain("token");
  return { environment, api_token_id, api_token_name, user_group_id };
}

describe.each(RUNTIMES)("log lines of calls on %s", (runtime) => {
  const server = sharedServer({ runtime });
  const issued = { token: "", id: "" };
  let byHand: Record<string, unknown> = {};
  let resolver: { token: string; id: string };

  beforeAll(async () => {
    Object.assign(issued, await issueToken(server, "manage"));
    resolver = await issueToken(server, "resolve");
    byHand = {
      environment: `${server.environment}/Customer`,
      api_token_id: issued.id,
      api_token_name: "of role manage",
    };
  });

  const json = (token: string, body: object): HttpRequest => ({
    headers: { ...bearer(token), "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  const send = (path: string, token: string, body: object) => lineOf(server, path, json(token, body));

  it("the log line contains the process id, the environment, and the ids of the API token and group", async () => {
    const ways = [
      [`${RPC}/GetUserGroup`, { userGroupId: "logged" }],
      [`${RPC}/UpdateUserGroup`, { userGroupId: "logged", name: "N" }],
      [`${RPC}/RotateUserGroupToken`, { userGroupId: "logged" }],
      ["/api/user", { user_group_id: "logged" }],
    ] as const;
    for (const [path, body] of ways) {
      const line = await send(path, issued.token, body);
      expect(line).toMatchObject({ level: "debug", msg: "call", code: "ok", pid: server.pid });
      expect(line).not.toHaveProperty("peer");
      expect(whoIn(line)).toEqual({ ...byHand, user_group_id: "logged" });
    }
  });

  it("the log line contains the group of a user group token, and never the token", async () => {
    const { groups } = grpcClients(server, issued.token);
    const { userGroup } = await groups.getUserGroup({ userGroupId: "of a token" });
    const token = userGroup?.token ?? "";
    for (const [path, body] of [
      [RESOLVE, { token }],
      ["/api/viewer", { token }],
      ["/api/user", { current_token: token }],
    ] as const) {
      const line = await send(path, issued.token, body);
      expect(whoIn(line)).toEqual({ ...byHand, user_group_id: "of a token" });
    }
    const unknown = await send(RESOLVE, issued.token, { token });
    expect(unknown).toMatchObject({ level: "debug", msg: "call refused", code: "not_found" });
    expect(whoIn(unknown)).toEqual({ ...byHand, user_group_id: undefined });
    // The log must not contain even the first characters of a credential.
    const lookedUp = `leaked-${crypto.randomUUID()}`;
    const lookup = await send("/usergroup.admin.v1.AdminService/LookupApiToken", ADMIN_TOKEN, { token: lookedUp });
    expect(lookup).toMatchObject({ level: "debug", code: "not_found" });
    const { customer, testing, untagged } = server.tokens;
    const used = [issued.token, resolver.token, customer, testing, untagged, ADMIN_TOKEN];
    for (const secret of [token, lookedUp, ...used]) {
      expect(secret.length).toBeGreaterThan(12);
      expect(server.output()).not.toContain(secret.slice(0, 12));
    }
  });

  it("the log line identifies an entry of API_TOKENS by its name or a keyed digest, and ADMIN_TOKEN as root", async () => {
    const line = await send("/api/user", server.tokens.untagged, { user_group_id: "a" });
    // The request rotates the token of a group that does not exist. Even so, the log line contains the id of the group.
    expect(whoIn(line)).toEqual({
      environment: server.environment,
      api_token_id: expect.stringMatching(/^static-[0-9a-f]{10}$/),
      api_token_name: "an entry of API_TOKENS without a name",
      user_group_id: "a",
    });
    const named = await send("/api/user", server.tokens.customer, { user_group_id: "a" });
    expect(whoIn(named)).toMatchObject({ api_token_id: "static-customer", api_token_name: "customer" });
    const list = await send("/usergroup.admin.v1.AdminService/ListEnvironments", ADMIN_TOKEN, {});
    const root = { environment: undefined, api_token_id: "root", api_token_name: "root", user_group_id: undefined };
    expect(list).toMatchObject({ code: "ok" });
    expect(whoIn(list)).toEqual(root);
    for (const [tag, suffix] of [
      ["API_ENVIRONMENT_TAG_TESTING", "/Testing"],
      ["API_ENVIRONMENT_TAG_UNSPECIFIED", ""],
    ] as const) {
      const named = { environment: { name: server.environment, tag } };
      const listed = await send("/usergroup.admin.v1.AdminService/ListUserGroups", ADMIN_TOKEN, named);
      expect(whoIn(listed)).toEqual({ ...root, environment: server.environment + suffix });
    }
    // An invalid name of an environment is not logged, because it can have any length.
    const unnamed = { environment: { name: "no name ".repeat(1000) } };
    const refused = await send("/usergroup.admin.v1.AdminService/ListUserGroups", ADMIN_TOKEN, unnamed);
    expect(refused).toMatchObject({ code: "invalid_argument", peer: "127.0.0.1" });
    expect(whoIn(refused)).toEqual(root);
  });

  it("the log line contains the caller if the permission is denied, but not the group of the request", async () => {
    const line = await send(`${RPC}/UpdateUserGroup`, resolver.token, { userGroupId: "claimed" });
    expect(line).toMatchObject({ level: "debug", msg: "call refused", code: "permission_denied" });
    const denied = { ...byHand, api_token_id: resolver.id, api_token_name: "of role resolve" };
    expect(whoIn(line)).toEqual({ ...denied, user_group_id: undefined });
  });

  it("the log line contains the caller if the request message cannot be decoded", async () => {
    const request = { headers: { ...bearer(issued.token), "content-type": "application/json" }, body: "{" };
    for (const path of [`${RPC}/GetUserGroup`, "/api/user"]) {
      const line = await lineOf(server, path, request);
      expect(line).toMatchObject({ level: "debug", code: "invalid_argument" });
      expect(whoIn(line)).toEqual({ ...byHand, user_group_id: undefined });
    }
  });

  it("the log line is short, even if the group id of the request is long", async () => {
    const line = await send(`${RPC}/GetUserGroup`, issued.token, { userGroupId: "x".repeat(100_000) });
    expect(whoIn(line)).toEqual({ ...byHand, user_group_id: undefined });
    expect(JSON.stringify(line).length).toBeLessThan(1000);
  });

  it("the log line contains no caller if the API token is unknown", async () => {
    const nobody = {
      environment: undefined,
      api_token_id: undefined,
      api_token_name: undefined,
      user_group_id: undefined,
    };
    for (const path of [`${RPC}/GetUserGroup`, "/api/user", RESOLVE]) {
      const line = await send(path, newApiToken(), { userGroupId: "claimed", token: newUserGroupToken() });
      expect(line).toMatchObject({ level: "debug", code: "unauthenticated", peer: "127.0.0.1" });
      expect(whoIn(line)).toEqual(nobody);
    }
    expect(whoIn(await send("/grpc.health.v1.Health/Check", "x", {}))).toEqual(nobody);
    expect(whoIn(await send("/nowhere", issued.token, {}))).toEqual(nobody);
  });
});

describeWithRedis.each(RUNTIMES)("with LOG_LEVEL=info on %s", (runtime) => {
  it("only calls that fail with a server error are logged, and each log line contains the caller", async () => {
    const redis = await newRedis();
    const server = await newServer({ runtime, redisUrl: redis.url });
    const { groups } = grpcClients(server);
    await groups.getUserGroup({ userGroupId: "kept" });
    await failureOf(groups.updateUserGroup({ userGroupId: "none", name: "N" }));
    await failureOf(grpcClients(server, newApiToken()).groups.getUserGroup({ userGroupId: "a" }));
    expect(server.log().filter((line) => "request_id" in line)).toEqual([]);

    const who = {
      pid: server.pid,
      environment: `${server.environment}/Customer`,
      api_token_id: "static-customer",
      api_token_name: "customer",
      user_group_id: "kept",
    };
    const operator = newOperator(redis);
    const [key = ""] = await operator.keys("*:group:kept");
    await operator.hset(key, "t", "no token");
    expect((await failureOf(groups.getUserGroup({ userGroupId: "kept" }))).code).toBe("DataLoss");
    await groups.getUserGroup({ userGroupId: "odd" });
    const [oddKey = ""] = await operator.keys("*:group:odd");
    await operator.hset(oddKey, "m", '{"no text":1}');
    const headers = { ...bearer(server.tokens.customer), "content-type": "application/json" };
    const body = JSON.stringify({ userGroupId: "odd" });
    const answer = await http1(server.url, `${RPC}/GetUserGroup`, { method: "POST", headers, body });
    expect(answer.json()).toMatchObject({
      code: "internal",
      details: [{ type: "google.rpc.ErrorInfo", debug: { reason: "INTERNAL" } }],
    });
    await redis.kill();
    expect((await failureOf(groups.getUserGroup({ userGroupId: "kept" }))).code).toBe("Unavailable");
    const lines = () => server.log().filter((line) => "request_id" in line);
    await waitFor("all calls are logged", () => lines().length === 3);
    expect(lines()).toMatchObject([
      { level: "error", msg: "call failed", code: "data_loss", ...who },
      {
        ...{ level: "error", msg: "call failed", code: "internal", request_id: answer.headers["x-request-id"] },
        ...{ ...who, user_group_id: "odd" },
      },
      { level: "warn", msg: "call failed", code: "unavailable", ...who },
    ]);
  });
});

describeWithRedis("several workers", () => {
  it("the log line contains the process id of the worker that handled the call", async () => {
    const server = await newServer({ redisUrl, env: { WORKERS: "2", LOG_LEVEL: "debug" } });
    const workers = descendants(server.pid);
    const seen = new Set<unknown>();
    await waitFor("both workers have handled a call", async () => {
      const headers = { ...bearer(server.tokens.customer), connection: "close" };
      seen.add((await lineOf(server, "/api/user?user_group_id=a", { method: "GET", headers }))["pid"]);
      return seen.size === 2;
    });
    for (const pid of seen) expect(workers).toContain(pid);
  });
});
