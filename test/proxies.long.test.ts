import { readFileSync } from "node:fs";
import type { ClientHttp2Session } from "node:http2";
import { connect, type Socket } from "node:net";
import { networkInterfaces } from "node:os";
import { join } from "node:path";
import { create, toBinary } from "@bufbuild/protobuf";
import { envelope, http1, openHttp2 } from "@user-group-service/testing/http";
import { orLeaveOut } from "@user-group-service/testing/on-path";
import { descendants } from "@user-group-service/testing/process";
import { idle } from "@user-group-service/testing/process-usage";
import { RUNTIMES } from "@user-group-service/testing/runtime";
import { waitFor } from "@user-group-service/testing/wait";
import { afterEach, describe, expect, it } from "vitest";
import { GetUserGroupRequestSchema } from "../gen/usergroup/v1/user_group_service_pb.ts";
import { MAX_MESSAGE_BYTES } from "../src/domain/capacity.ts";
import { describeWithRedis, newServer, redisUrl } from "./support/opened.ts";
import { newEnvoy, newHaproxy, newNginx, waitUntilListening } from "./support/proxies.ts";
import { deployPrograms } from "./support/python.ts";
import type { TestServer } from "./support/server.ts";

const nginx = orLeaveOut("nginx", "the tests behind nginx are");
const haproxy = orLeaveOut("haproxy", "the tests behind HAProxy are");
const programs = deployPrograms();

const PROXIES = [
  { name: "nginx", program: nginx, begin: newNginx, grpc: 8081, http: 8082 },
  { name: "HAProxy", program: haproxy, begin: newHaproxy, grpc: 8083, http: 8084 },
  { name: "Envoy", program: programs && join(programs, "envoy"), begin: newEnvoy, grpc: 8085, http: 8085 },
].flatMap(({ program, ...proxy }) => (program === undefined ? [] : [{ ...proxy, program }]));

/** Number of waiting connections. Two workers with the default backlog of 511 could not hold so many connections. */
const WAITING = 1500;
const CONNECTIONS = 20;
const AT_ONCE = 2000;
/** Numbers of calls in the short load and in the long load. Only a server on Node behind nginx gets the long load. */
const [SHORT_LOAD, LONG_LOAD] = [4000, 20_000];

describeWithRedis.each(RUNTIMES)("a server on %s that does not accept connections yet", (runtime) => {
  const sockets: Socket[] = [];
  afterEach(() => {
    for (const socket of sockets.splice(0)) socket.destroy();
  });

  it.each(["1", "2"])("queues connections (WORKERS=%s)", async (WORKERS) => {
    expect(Number(readFileSync("/proc/sys/net/core/somaxconn", "utf8"))).toBeGreaterThanOrEqual(4096);
    const server = await newServer({ runtime, redisUrl, env: { WORKERS } });
    const { hostname: host, port } = new URL(server.url);
    const pids = [server.pid, ...descendants(server.pid)];
    for (const pid of pids) process.kill(pid, "SIGSTOP");
    try {
      let open = 0;
      for (let i = 0; i < WAITING; i++) {
        const socket = connect({ host, port: Number(port) }, () => open++);
        sockets.push(socket.on("error", () => {}));
      }
      await waitFor("all connections are open", () => open === WAITING);
    } finally {
      for (const pid of pids) process.kill(pid, "SIGCONT");
    }
    expect((await http1(server.url, "/healthz")).status).toBe(200);
  });
});

async function load(url: string, { tokens }: TestServer, calls: number): Promise<{ [status: string]: number }> {
  const body = envelope(toBinary(GetUserGroupRequestSchema, create(GetUserGroupRequestSchema, { userGroupId: "a" })));
  const headers = {
    ":method": "POST",
    ":path": "/usergroup.v1.UserGroupService/GetUserGroup",
    "content-type": "application/grpc",
    te: "trailers",
    authorization: `Token ${tokens.customer}`,
  };
  const call = (session: ClientHttp2Session) =>
    new Promise<string>((resolve) => {
      const stream = session.request(headers);
      let status = "none";
      stream.on("response", (head) => {
        status = String(head["grpc-status"] ?? `HTTP ${head[":status"]}`);
      });
      stream.on("trailers", (trailers) => {
        status = String(trailers["grpc-status"]);
      });
      stream.on("error", (error) => {
        status = error.message;
      });
      stream.on("close", () => resolve(status));
      stream.resume().end(body);
    });
  const ended: { [status: string]: number } = {};
  let left = calls;
  const sessions = Array.from({ length: CONNECTIONS }, () => openHttp2(url));
  const loop = async (session: ClientHttp2Session) => {
    while (left-- > 0) {
      const status = await call(session);
      ended[status] = (ended[status] ?? 0) + 1;
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, (_, i) => loop(sessions[i % CONNECTIONS] as ClientHttp2Session)));
  for (const session of sessions) session.destroy();
  return ended;
}

/** Addresses of this machine. For a caller on loopback, Envoy reports the external address of the machine. */
const own = Object.values(networkInterfaces()).flatMap((each = []) => each.map(({ address }) => address));

describe.each(RUNTIMES)("behind a proxy, a server on %s", (runtime) => {
  const start = () => newServer({ runtime, env: { TRUSTED_PROXIES: own.join(","), AUTH_FAILURE_LIMIT: "3/1h" } });
  /**
   * Expects responses over HTTP, even to a request with the largest body. Expects that authentication failures count
   * for the address that the proxy reports.
   */
  const takesHttp = async (url: string, server: TestServer) => {
    const headers = { authorization: `Token ${server.tokens.customer}`, "content-type": "application/json" };
    expect((await http1(url, "/api/user?user_group_id=a", { headers })).status).toBe(200);
    // The service reads the whole body, and rejects the name as too long.
    const body = JSON.stringify({ user_group_id: "a", name: "x".repeat(MAX_MESSAGE_BYTES - 100) });
    const refused = await http1(url, "/api/user", { method: "PUT", headers, body });
    expect([refused.status, refused.body.toString()]).toEqual([400, expect.stringContaining("name")]);
    const failure = async (caller: string) => {
      const headers = { authorization: "Token nobody-has-this-token", "x-forwarded-for": caller };
      return (await http1(url, "/api/user?user_group_id=a", { headers })).status;
    };
    // The proxy appends an address of this machine to `X-Forwarded-For`. The service trusts the appended address, so a
    // failure counts for `caller`, the address before the appended address.
    for (let i = 0; i < 3; i++) expect(await failure("198.51.100.1")).toBe(401);
    expect(await failure("198.51.100.1")).toBe(429);
    expect(await failure("198.51.100.2")).toBe(401);
  };

  it.each(PROXIES)("responds to every call over gRPC and over HTTP ($name)", async ({ program, begin, grpc, http }) => {
    const server = await start();
    const at = await begin(program, server.url);
    await waitUntilListening(at(grpc));
    const calls = runtime === "node" && program === nginx ? LONG_LOAD : SHORT_LOAD;
    expect(await load(at(grpc), server, calls)).toEqual({ 0: calls });
    // On a busy machine, health checks may time out under this load. Wait until the proxy uses the server again.
    await idle(server.pid);
    await waitFor("the proxy forwards calls", async () => (await http1(at(http), "/healthz")).status === 200);
    await takesHttp(at(http), server);
  });
});
