import { type Client, Code, ConnectError, createClient, type Transport } from "@connectrpc/connect";
import * as node from "@connectrpc/connect-node";
import * as web from "@connectrpc/connect-web";
import { beforeAll, describe, expect, inject, it } from "vitest";
import { ErrorInfoSchema } from "../gen/google/rpc/error_details_pb.ts";
import { Health, HealthCheckResponse_ServingStatus as Status } from "../gen/grpc/health/v1/health_pb.ts";
import { UserGroupService } from "../gen/usergroup/v1/user_group_service_pb.ts";
import { ViewerService } from "../gen/usergroup/v1/viewer_service_pb.ts";
import { describeWithRedis, newLaunched, newServer, suiteServer } from "./support/opened.ts";
import { freePort } from "./support/wait.ts";

const redisUrl = inject("redisUrl");
const ORIGIN = "https://app.example.com";

const TRANSPORTS: { readonly [name: string]: (baseUrl: string) => Transport } = {
  "connect-node, HTTP/1.1, JSON": (baseUrl) => node.createConnectTransport({ baseUrl, httpVersion: "1.1" }),
  "connect-node, HTTP/2, binary, gzip": (baseUrl) =>
    node.createConnectTransport({
      baseUrl,
      httpVersion: "2",
      useBinaryFormat: true,
      sendCompression: node.compressionGzip,
      compressMinBytes: 1,
    }),
  "connect-node, gRPC-Web over HTTP/2": (baseUrl) => node.createGrpcWebTransport({ baseUrl, httpVersion: "2" }),
  "connect-web, JSON": (baseUrl) => web.createConnectTransport({ baseUrl }),
  "connect-web, binary": (baseUrl) => web.createConnectTransport({ baseUrl, useBinaryFormat: true }),
  "connect-web, gRPC-Web": (baseUrl) => web.createGrpcWebTransport({ baseUrl }),
};

describeWithRedis("deno serve --parallel", () => {
  const options = { runtime: "deno-serve", redisUrl, env: { CORS_ORIGINS: ORIGIN } } as const;
  const served = suiteServer(options);

  const headers = () => ({ Authorization: `Token ${served.tokens.customer}` });
  let unique = 0;
  const newId = () => `served-${process.pid}-${performance.timeOrigin}-${unique++}`;

  describe.each(Object.keys(TRANSPORTS))("over %s", (name) => {
    let groups: Client<typeof UserGroupService>;
    let viewers: Client<typeof ViewerService>;
    let health: Client<typeof Health>;

    beforeAll(() => {
      const transport = (TRANSPORTS[name] as (baseUrl: string) => Transport)(served.url);
      groups = createClient(UserGroupService, transport);
      viewers = createClient(ViewerService, transport);
      health = createClient(Health, transport);
    });

    it("gets, updates, rotates and resolves", async () => {
      const userGroupId = newId();
      const options = { headers: headers() };
      const first = await groups.getUserGroup({ userGroupId, name: "Grüße 🎉" }, options);
      expect([first.newUserGroup, first.userGroup?.name]).toEqual([true, "Grüße 🎉"]);
      const updated = await groups.updateUserGroup({ userGroupId, properties: { plan: "gold" } }, options);
      expect(updated.userGroup?.properties).toEqual({ plan: "gold" });
      const value = first.userGroup?.token ?? "";
      const rotated = await groups.rotateUserGroupToken({ group: { case: "currentToken", value } }, options);
      const token = rotated.userGroup?.token ?? "";
      expect((await viewers.resolveViewer({ token }, options)).providedId).toBe(userGroupId);
      await expect(viewers.resolveViewer({ token: value }, options)).rejects.toMatchObject({ code: Code.NotFound });
    });

    it("tells why a call failed, and of which request", async () => {
      let requestId: string | null = null;
      const call = groups.getUserGroup(
        { userGroupId: "a" },
        {
          headers: { "X-Request-Id": "my-own" },
          onHeader: (header) => {
            requestId = header.get("x-request-id");
          },
        },
      );
      const error = ConnectError.from(await call.catch((reason: unknown) => reason));
      expect(error.code).toBe(Code.Unauthenticated);
      expect(error.findDetails(ErrorInfoSchema)[0]?.reason).toBe("API_TOKEN_MISSING");
      expect(requestId ?? error.metadata.get("x-request-id")).toBe("my-own");
    });

    it("refuses a message that is too large", async () => {
      const call = groups.getUserGroup({ userGroupId: "a", name: "x".repeat(1024 * 1024) }, { headers: headers() });
      await expect(call).rejects.toMatchObject({ code: Code.ResourceExhausted });
    });

    it("answers with a stream", async () => {
      const ended = new AbortController();
      const states: Status[] = [];
      for await (const { status } of health.watch({}, { signal: ended.signal })) {
        states.push(status);
        break;
      }
      ended.abort();
      expect(states).toEqual([Status.SERVING]);
    });
  });

  describe("over REST", () => {
    const rest = (query: string, init: RequestInit = {}) =>
      fetch(`${served.url}/api/user${query}`, {
        ...init,
        headers: { ...headers(), "Content-Type": "application/json", ...(init.headers as Record<string, string>) },
      });

    it("gets by query, updates and rotates", async () => {
      const id = newId();
      const properties = encodeURIComponent('{"plan":"gold"}');
      const got = await rest(`?user_group_id=${id}&name=Acme&properties=${properties}`);
      expect(got.status).toBe(200);
      const first = (await got.json()) as { user_group: { token: string } };
      expect(first).toMatchObject({ success: 1, new_user_group: true, user_group: { provided_id: id } });
      const put = await rest("", { method: "PUT", body: JSON.stringify({ user_group_id: id, name: "New" }) });
      expect(put.headers.get("etag")).toMatch(/^".+"$/);
      expect(await put.json()).toMatchObject({ user_group: { name: "New", properties: { plan: "gold" } } });
      const body = JSON.stringify({ current_token: first.user_group.token });
      const post = await rest("/", { method: "POST", body });
      const rotated = (await post.json()) as { user_group: { token: string } };
      expect(rotated.user_group.token).toMatch(/^ugt_/);
      expect(rotated.user_group.token).not.toBe(first.user_group.token);
      expect((await rest("", { method: "POST", body })).status).toBe(404);
    });

    it("answers errors as everywhere", async () => {
      expect((await rest("?user_group_id=a", { headers: { Authorization: "Token unknown-unknown" } })).status).toBe(
        401,
      );
      const wrongVerb = await rest("", { method: "DELETE" });
      expect([wrongVerb.status, wrongVerb.headers.get("allow")]).toEqual([405, "GET, PUT, POST"]);
      const large = await rest("", { method: "PUT", body: JSON.stringify({ name: "x".repeat(1024 * 1024) }) });
      expect([large.status, await large.json()]).toMatchObject([413, { error: { reason: "MESSAGE_TOO_LARGE" } }]);
      const nowhere = await fetch(`${served.url}/nowhere`);
      expect([nowhere.status, await nowhere.json()]).toMatchObject([404, { error: { reason: "PATH_NOT_FOUND" } }]);
    });
  });

  it("answers operators", async () => {
    expect(await (await fetch(`${served.url}/readyz`)).text()).toBe("ok\n");
    expect(await (await fetch(`${served.url}/metrics`)).text()).toContain("ugs_redis_duration_seconds");
    const head = await fetch(`${served.url}/healthz`, { method: "HEAD" });
    expect([head.status, head.headers.get("content-length"), await head.text()]).toEqual([200, "3", ""]);
  });

  it.each(["/usergroup.v1.UserGroupService/GetUserGroup", "/grpc.health.v1.Health/Watch"])(
    "tells browsers who may call %s",
    async (path) => {
      const preflight = (origin: string) =>
        fetch(served.url + path, {
          method: "OPTIONS",
          headers: { Origin: origin, "Access-Control-Request-Method": "POST" },
        });
      const allowed = await preflight(ORIGIN);
      expect([allowed.status, allowed.headers.get("access-control-allow-origin")]).toEqual([204, ORIGIN]);
      const refused = await preflight("https://elsewhere.example.com");
      expect([refused.status, refused.headers.get("access-control-allow-origin")]).toEqual([204, null]);
      const call = (origin: string) =>
        fetch(served.url + path, { method: "POST", headers: { Origin: origin, "Content-Type": "text/plain" } });
      expect((await call(ORIGIN)).headers.get("access-control-allow-origin")).toBe(ORIGIN);
      expect((await call("https://elsewhere.example.com")).headers.get("access-control-allow-origin")).toBeNull();
    },
  );

  it("tells a gRPC client that it cannot serve it", async () => {
    const client = createClient(UserGroupService, node.createGrpcTransport({ baseUrl: served.url }));
    const error = ConnectError.from(
      await client.getUserGroup({ userGroupId: "a" }, { headers: headers() }).catch((reason: unknown) => reason),
    );
    expect(error.code).toBe(Code.Unimplemented);
    expect(error.rawMessage).toContain("use gRPC-Web or Connect");
  });

  it.each(["SIGTERM", "SIGINT"] as const)("ends its streams and then itself on %s", async (signal) => {
    const other = await newServer(options);
    await (await fetch(`${other.url}/healthz`)).text();
    const client = createClient(Health, web.createConnectTransport({ baseUrl: other.url }));
    const states: Status[] = [];
    const watching = (async () => {
      for await (const { status } of client.watch({})) {
        states.push(status);
        // A second one would end it at once.
        if (states.length === 1) other.signal(signal);
      }
    })();
    await watching.catch(() => {});
    expect(states).toEqual([Status.SERVING, Status.NOT_SERVING]);
    expect(await other.exited()).toBe(0);
    expect(other.output()).toContain('"msg":"closed"');
  });

  const fixture = (name: string) => `test/fixtures/tls/${name}.pem`;

  it.each([
    ["without Redis", { redisUrl: undefined }, "REDIS_URL is missing"],
    ["with TLS", { env: { TLS_CERT_FILE: fixture("cert"), TLS_KEY_FILE: fixture("key") } }, "TLS_CERT_FILE"],
    ["with METRICS_PORT", { env: { METRICS_PORT: "0" } }, "METRICS_PORT has no effect"],
  ] as const)("does not start %s", async (_name, changed, text) => {
    const { env, ...others } = { ...options, ...changed };
    const PORT = String(await freePort());
    const failing = newLaunched({ ...others, env: { PORT, API_TOKENS: "e=0123456789abcdef", ...env } });
    expect(await failing.exited()).not.toBe(0);
    expect(failing.output()).toContain(text);
  });
});
