import { execFileSync } from "node:child_process";
import { request } from "node:http";
import { connect as connectHttp2 } from "node:http2";
import { describe, expect, it } from "vitest";
import { HealthCheckResponse_ServingStatus as Status } from "../gen/grpc/health/v1/health_pb.ts";
import { closeLater, newLaunched, newProxy, newRedis, newServer, redisUrl } from "./support/opened.ts";
import { healthOf } from "./support/operations.ts";
import { framesIn, HTTP2_GET, rawConnect } from "./support/raw-socket.ts";
import type { RedisProxy } from "./support/redis-proxy.ts";
import { grpcClients } from "./support/rpc.ts";
import { type LaunchedServer, RUNTIMES, type Runtime, type TestServer } from "./support/server.ts";
import { waitFor } from "./support/wait.ts";

const GOAWAY_FRAME = 7;
const SIGNALS = ["SIGTERM", "SIGINT"] as const;

/** A server whose store answers when the test says so. */
async function slowServer(runtime: Runtime, env: { [name: string]: string } = {}) {
  const proxy = await newProxy(await newRedis());
  const server = await newServer({ runtime, redisUrl: proxy.url, env: { REDIS_TIMEOUT: "50s", ...env } });
  return { proxy, server };
}

/** Lets no request reach the store, makes a call, and waits until it is under way. */
async function underWay<T>(proxy: RedisProxy, call: () => Promise<T>): Promise<Promise<T>[]> {
  proxy.allow(0);
  const answer = call();
  answer.catch(() => {});
  await waitFor("the call is under way", () => proxy.trips() > 0);
  return [answer];
}

async function isRefused({ url }: TestServer): Promise<boolean> {
  const raw = await rawConnect(url);
  raw.send("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
  await waitFor("there is an answer or an end", () => raw.isClosed() || raw.received().length > 0);
  raw.socket.destroy();
  return raw.received().length === 0;
}

const says = (server: LaunchedServer, text: string) => server.log().some(({ msg }) => msg === text);

describe.each(RUNTIMES)("a server on %s", (runtime) => {
  const withRedis = it.skipIf(redisUrl === undefined);

  withRedis.each(SIGNALS)("finishes at %s what is under way, and nothing new", async (signal) => {
    const { server, proxy } = await slowServer(runtime);
    const { groups } = grpcClients(server);
    await groups.getUserGroup({ userGroupId: "a" });
    const headers = { Authorization: `Token ${server.tokens.customer}` };
    const [grpc] = await underWay(proxy, () => groups.updateUserGroup({ userGroupId: "a", name: "N" }));
    const rest = fetch(`${server.url}/api/user?user_group_id=a`, { headers });
    const health = await fetch(`${server.url}/healthz`);
    expect(health.status).toBe(200);
    server.signal(signal);
    await waitFor("nothing new is accepted", () => isRefused(server));
    expect(says(server, "closed")).toBe(false);
    proxy.allow(Number.POSITIVE_INFINITY);
    expect((await grpc)?.userGroup?.name).toBe("N");
    expect((await rest).status).toBe(200);
    expect(await server.exited()).toBe(0);
    expect(says(server, "shutting down")).toBe(true);
    expect(says(server, "closed")).toBe(true);
    expect(says(server, "not closed in time")).toBe(false);
  });

  withRedis("tells HTTP/2 connections to go away, and still answers their streams", async () => {
    const { server, proxy } = await slowServer(runtime);
    const session = connectHttp2(server.url);
    closeLater(() => session.destroy());
    let goaway: number | undefined;
    session.on("goaway", (code) => {
      goaway = code;
    });
    session.on("error", () => {});
    const headers = { ":path": "/api/user?user_group_id=a", authorization: `Token ${server.tokens.customer}` };
    const [status] = await underWay(
      proxy,
      () =>
        new Promise((resolve, reject) => {
          const stream = session.request(headers);
          stream.once("response", (response) => resolve(response[":status"]));
          stream.once("error", reject).resume().end();
        }),
    );
    server.signal("SIGTERM");
    await waitFor("GOAWAY comes", () => goaway !== undefined);
    expect(goaway).toBe(0);
    proxy.allow(Number.POSITIVE_INFINITY);
    expect(await status).toBe(200);
    expect(await server.exited()).toBe(0);
  });

  it("does not wait for connections without a call", async () => {
    const server = await newServer({ runtime, env: { SHUTDOWN_TIMEOUT: "1h" } });
    const [silent, partial, http1, http2] = await Promise.all([1, 2, 3, 4].map(() => rawConnect(server.url)));
    closeLater(() => [silent, partial, http1, http2].forEach((raw) => void raw?.socket.destroy()));
    partial?.send("PRI * H");
    http1?.send("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
    http2?.send(HTTP2_GET);
    const answered = () => framesIn(http2?.received() ?? Buffer.alloc(0)).some(({ stream }) => stream === 1);
    await waitFor("HTTP/2 answers", answered);
    await waitFor("HTTP/1.1 answers", () => http1?.received().toString("latin1").startsWith("HTTP/1.1 200"));
    server.signal("SIGTERM");
    expect(await server.exited()).toBe(0);
    const frames = framesIn(http2?.received() ?? Buffer.alloc(0));
    expect(frames.map(({ type }) => type)).toContain(GOAWAY_FRAME);
  });

  it("tells whoever watches its health that it ends, and ends the stream", async () => {
    const server = await newServer({ runtime, env: { SHUTDOWN_TIMEOUT: "1h" } });
    const health = healthOf(server);
    const seen: Status[] = [];
    let ended = false;
    const watching = (async () => {
      for await (const { status } of health.watch({})) seen.push(status);
    })()
      .catch(() => {})
      .finally(() => {
        ended = true;
      });
    await waitFor("the watcher has a first answer", () => seen.length > 0);
    expect(ended).toBe(false);
    server.signal("SIGTERM");
    await watching;
    expect(seen).toEqual([Status.SERVING, Status.NOT_SERVING]);
    expect(await server.exited()).toBe(0);
    expect(says(server, "not closed in time")).toBe(false);
  });

  it("gives up at SHUTDOWN_TIMEOUT a client that never ends its request", async () => {
    const server = await newServer({ runtime, env: { SHUTDOWN_TIMEOUT: "500ms" } });
    const headers = {
      Authorization: `Token ${server.tokens.customer}`,
      "Content-Type": "application/json",
      "Content-Length": "1000",
    };
    const endless = request(`${server.url}/api/user`, { method: "PUT", headers, agent: false });
    closeLater(() => endless.destroy());
    endless.on("error", () => {}).write("{");
    const raw = await rawConnect(server.url);
    closeLater(() => raw.socket.destroy());
    // Another's answer shows that the first bytes of the endless one are there, too.
    expect((await fetch(`${server.url}/healthz`)).status).toBe(200);
    server.signal("SIGTERM");
    expect(await server.exited()).toBe(0);
    expect(server.log().find(({ msg }) => msg === "not closed in time")).toMatchObject({
      failed: ["requests under way"],
    });
  });

  withRedis("gives up at SHUTDOWN_TIMEOUT a call that the store never answers", async () => {
    const { server, proxy } = await slowServer(runtime, { SHUTDOWN_TIMEOUT: "500ms" });
    const headers = { Authorization: `Token ${server.tokens.customer}` };
    const [call] = await underWay(proxy, () => fetch(`${server.url}/api/user?user_group_id=a`, { headers }));
    server.signal("SIGTERM");
    expect(await server.exited()).toBe(0);
    await expect(call).rejects.toThrow();
    expect(says(server, "not closed in time")).toBe(true);
  });

  it("says that its port is taken, and ends with 1", async () => {
    const first = await newServer({ runtime });
    const { port } = new URL(first.url);
    const second = newLaunched({ runtime, env: { PORT: port, API_TOKENS: "e=0123456789abcdef" } });
    expect(await second.exited()).toBe(1);
    expect(second.output()).toContain(port);
    expect(second.output()).toMatch(/in use|taken/i);
    expect(second.output()).not.toMatch(/\n\s+at /);
    expect(says(second, "listening")).toBe(false);
    expect((await fetch(`${first.url}/healthz`)).status).toBe(200);
  });

  it("makes two API tokens when it has none, and shows a command that works when pasted", async () => {
    const server = newLaunched({ runtime });
    const url = await waitFor("it listens", () => server.log().find(({ msg }) => msg === "listening")?.["url"]);
    const line = server.log().find((each) => "api_tokens" in each);
    const tokens = line?.["api_tokens"] as { [environment: string]: string };
    expect(Object.keys(tokens).sort()).toEqual(["dev/Customer", "dev/Testing"]);
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
      // They are told once.
      expect(server.output().split(token).length - 1).toBeLessThanOrEqual(2);
    }
    expect(server.output()).toMatch(/memory/);
  });
});
