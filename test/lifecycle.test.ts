import { execFileSync } from "node:child_process";
import { request } from "node:http";
import { connect as connectHttp2 } from "node:http2";
import { openWire } from "@user-group-service/testing/attacks/wire";
import { HTTP2_GET } from "@user-group-service/testing/http2-frames";
import { closeLater } from "@user-group-service/testing/opened";
import { RUNTIMES, type Runtime } from "@user-group-service/testing/runtime";
import { waitFor } from "@user-group-service/testing/wait";
import { describe, expect, it } from "vitest";
import { HealthCheckResponse_ServingStatus as Status } from "../gen/grpc/health/v1/health_pb.ts";
import { adminOf } from "./support/admin.ts";
import { newProxy, newRedis, newServer, newServerProcess, redisUrl, sharedServer } from "./support/opened.ts";
import { healthOf, metricOf } from "./support/operations.ts";
import type { RedisProxy } from "./support/redis-proxy.ts";
import { grpcClients } from "./support/rpc.ts";
import type { ServerProcess, TestServer } from "./support/server.ts";

const GOAWAY_FRAME = 7;
const HTTP1_GET = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n";
const SIGNALS = ["SIGTERM", "SIGINT"] as const;

/** A server whose store responds only if the test allows the response. */
interface SlowServer {
  readonly server: TestServer;
  readonly proxy: RedisProxy;
}

async function slowServer(runtime: Runtime, env: { [name: string]: string } = {}): Promise<SlowServer> {
  const proxy = await newProxy(await newRedis());
  const server = await newServer({ runtime, redisUrl: proxy.url, env: { REDIS_TIMEOUT: "50s", ...env } });
  return { proxy, server };
}

/**
 * Holds back all requests to the store, makes a call, and waits until the metrics report that the call is in flight. A
 * request at the proxy would not prove that the call is in flight, because the server also sends other requests.
 */
async function inFlight<T>(
  { server, proxy }: SlowServer,
  { call, ...labels }: { grpc_method: string; protocol: string; call: () => Promise<T> },
): Promise<Promise<T>[]> {
  proxy.allow(0);
  const answer = call();
  answer.catch(() => {});
  await waitFor("the call is in flight", async () => {
    return (await metricOf(server, "grpc_server_in_flight", labels)) === 1;
  });
  return [answer];
}

async function isRefused({ url }: TestServer): Promise<boolean> {
  const raw = await openWire(url);
  raw.push(HTTP1_GET);
  await waitFor("there is a response, or the connection is closed", () => raw.isClosed || raw.received().length > 0);
  raw.socket.destroy();
  return raw.received().length === 0;
}

const says = (server: ServerProcess, text: string) => server.log().some(({ msg }) => msg === text);

async function endAt(signal: NodeJS.Signals, runtime: Runtime) {
  const { server, proxy } = await slowServer(runtime, { SHUTDOWN_TIMEOUT: "1h" });
  const { groups } = grpcClients(server);
  await groups.getUserGroup({ userGroupId: "a" });
  const authorization = `Token ${server.tokens.customer}`;

  const idle = await Promise.all(["", "PRI * H", HTTP1_GET, HTTP2_GET].map((sent) => connectAndSend(server, sent)));
  const [, , http1, http2] = idle;
  await waitFor("HTTP/2 responds", () => http2?.frames().some(({ stream }) => stream === 1));
  await waitFor("HTTP/1.1 responds", () => http1?.received().toString("latin1").startsWith("HTTP/1.1 200"));

  const watched: Status[] = [];
  const watching = (async () => {
    for await (const { status } of healthOf(server).watch({})) watched.push(status);
  })().catch(() => {});
  await waitFor("the watcher has its first response", () => watched.length > 0);

  const session = connectHttp2(server.url).on("error", () => {});
  closeLater(() => session.destroy());
  let goaway: number | undefined;
  session.on("goaway", (code) => {
    goaway = code;
  });
  const [grpc] = await inFlight(
    { server, proxy },
    {
      ...{ grpc_method: "UpdateUserGroup", protocol: "grpc" },
      call: () => groups.updateUserGroup({ userGroupId: "a", name: "N" }),
    },
  );
  const headers = { ":path": "/api/user?user_group_id=a", authorization };
  const status = new Promise((resolve, reject) => {
    const stream = session.request(headers).once("response", (response) => resolve(response[":status"]));
    stream.once("error", reject).resume().end();
  });
  const rest = fetch(`${server.url}/api/user?user_group_id=a`, { headers: { authorization } });
  const ofRest = { grpc_method: "GetUserGroup", protocol: "rest" };
  await waitFor("both GETs are in flight", async () => (await metricOf(server, "grpc_server_in_flight", ofRest)) === 2);

  server.signal(signal);
  await waitFor("new connections are refused", () => isRefused(server));
  await waitFor("GOAWAY arrives", () => goaway !== undefined);
  const wasClosed = says(server, "closed");
  proxy.allow(Number.POSITIVE_INFINITY);
  // The health check of the watcher may wait for the store as well. So `proxy.allow` must come before this line.
  await watching;
  return {
    wasClosed,
    answers: [(await grpc)?.userGroup?.name, (await rest).status, await status],
    code: await server.exited(),
    reported: ["shutting down", "closed", "could not be closed"].map((text) => says(server, text)),
    goaway,
    idleFrames: http2?.frames().map(({ type }) => type),
    // If the store responds too late for a health check, the watcher may receive other statuses between the first and
    // the last status.
    watched: [watched.at(0), watched.at(-1)],
  };
}

async function connectAndSend({ url }: TestServer, bytes: string | Buffer) {
  const raw = await openWire(url);
  closeLater(() => raw.socket.destroy());
  if (bytes.length > 0) raw.push(bytes);
  return raw;
}

describe.each(RUNTIMES)("a server on %s", (runtime) => {
  const withRedis = it.skipIf(redisUrl === undefined);

  withRedis.each(SIGNALS)(
    "on %s, the server finishes calls in flight, accepts no new calls, notifies clients and watchers, and closes idle connections",
    async (signal) => {
      const seen = await endAt(signal, runtime);
      expect(seen).toEqual({
        wasClosed: false,
        answers: ["N", 200, 200],
        code: 0,
        reported: [true, true, false],
        goaway: 0,
        idleFrames: expect.arrayContaining([GOAWAY_FRAME]),
        watched: [Status.SERVING, Status.NOT_SERVING],
      });
    },
  );

  withRedis(
    "on SIGTERM, the server answers all pipelined requests that have arrived, with Connection: close in the last response",
    async () => {
      const { server, proxy } = await slowServer(runtime);
      const raw = await connectAndSend(server, "");
      const authorization = `authorization: Token ${server.tokens.customer}`;
      const responses = () =>
        raw
          .received()
          .toString("latin1")
          .split(/(?=HTTP\/1\.1 )/);
      await inFlight(
        { server, proxy },
        {
          ...{ grpc_method: "GetUserGroup", protocol: "rest" },
          call: async () =>
            raw.push(`GET /api/user?user_group_id=a HTTP/1.1\r\nHost: x\r\n${authorization}\r\n\r\n`.repeat(20)),
        },
      );
      server.signal("SIGTERM");
      await waitFor("new connections are refused", () => isRefused(server));
      proxy.allow(Number.POSITIVE_INFINITY);
      expect(await server.exited()).toBe(0);
      await waitFor("the connection is closed", () => raw.isClosed);
      expect(responses()).toHaveLength(20);
      expect(responses().filter((text) => /^connection: close/im.test(text))).toEqual(responses().slice(-1));
    },
  );

  withRedis(
    "abandons incomplete requests and calls that wait for the store, if SHUTDOWN_TIMEOUT has elapsed",
    async () => {
      const { server, proxy } = await slowServer(runtime, { SHUTDOWN_TIMEOUT: "500ms" });
      const headers = { authorization: `Token ${server.tokens.customer}` };
      const json = { ...headers, "Content-Type": "application/json", "Content-Length": "1000", Expect: "100-continue" };
      const endless = request(`${server.url}/api/user`, { method: "PUT", headers: json, agent: false });
      closeLater(() => endless.destroy());
      const ended = new Promise((resolve) => endless.once("close", resolve));
      endless.on("error", () => {}).write("{");
      await new Promise((resolve) => endless.once("continue", resolve));
      const [call] = await inFlight(
        { server, proxy },
        {
          ...{ grpc_method: "GetUserGroup", protocol: "rest" },
          call: () => fetch(`${server.url}/api/user?user_group_id=a`, { headers }),
        },
      );
      server.signal("SIGTERM");
      expect(await server.exited()).toBe(0);
      await expect(call).rejects.toThrow();
      await ended;
      const late = server.log().find(({ msg }) => msg === "could not be closed");
      expect(late).toMatchObject({ failed: ["calls in flight"] });
    },
  );

  const first = sharedServer({ runtime });
  it("the server reports that its port is in use, and exits with 1", async () => {
    const { port } = new URL(first.url);
    const second = newServerProcess({ runtime, env: { PORT: port, API_TOKENS: "e=0123456789abcdef" } });
    expect(await second.exited()).toBe(1);
    expect(second.output()).toContain(port);
    expect(second.output()).toMatch(/in use|taken/i);
    expect(second.output()).not.toMatch(/\n\s+at /);
    expect(says(second, "listening")).toBe(false);
    expect((await fetch(`${first.url}/healthz`)).status).toBe(200);
  });

  it("generates two API tokens if API_TOKENS is not set, and logs a command that works without changes", async () => {
    const server = newServerProcess({ runtime });
    const url = await waitFor(
      "the server is ready",
      () => server.log().find(({ msg }) => msg === "listening")?.["url"],
    );
    const line = server.log().find((each) => "api_tokens" in each);
    const tokens = line?.["api_tokens"] as { [environment: string]: string };
    expect(Object.keys(tokens).sort()).toEqual(["dev/Customer", "dev/Testing"]);
    expect(line?.["console"]).toBe(`${url}/console/`);
    expect(await adminOf(String(url), String(line?.["admin_token"])).getCaller({})).toMatchObject({ role: "root" });
    const command = String(line?.["try"]);
    const run = () => JSON.parse(execFileSync("sh", ["-c", `${command} -sS`], { encoding: "utf8" })) as object;
    expect(run()).toMatchObject({
      success: 1,
      new_user_group: true,
      user_group: { provided_id: "acme", name: "Acme" },
    });
    expect(run()).toMatchObject({ success: 1, new_user_group: false });
    for (const token of Object.values(tokens)) {
      expect(token).toMatch(/^ugk_/);
      const headers = { Authorization: `Token ${token}` };
      expect((await fetch(`${url}/api/user?user_group_id=x`, { headers })).status).toBe(200);
      // The server prints a token in the list of tokens and in the command, and nowhere else.
      expect(server.output().split(token).length - 1).toBeLessThanOrEqual(2);
    }
    expect(server.output()).toMatch(/memory/);
  });
});
