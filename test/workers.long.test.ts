import { createClient } from "@connectrpc/connect";
import {
  createConnectTransport,
  createGrpcTransport,
  createGrpcWebTransport,
  Http2SessionManager,
} from "@connectrpc/connect-node";
import { RUNTIMES } from "@user-group-service/testing/runtime";
import { waitFor } from "@user-group-service/testing/wait";
import { expect, inject, it } from "vitest";
import { UserGroupService } from "../gen/usergroup/v1/user_group_service_pb.ts";
import { describeWithRedis, newServer, newServerProcess, redisUrl } from "./support/opened.ts";
import { metricsUrlOf } from "./support/operations.ts";
import type { TestServer } from "./support/server.ts";

/** Sends a GET over a new connection, so that the requests reach all workers in turn. */
async function get(server: TestServer, path: string): Promise<Response> {
  const headers = { Authorization: `Token ${server.tokens.customer}`, Connection: "close" };
  return fetch(server.url + path, { headers });
}

function workerPids(server: TestServer): number[] {
  return server.log().flatMap(({ msg, pid }) => (msg === "worker listening" ? [Number(pid)] : []));
}

const certificates = inject("certificates");
const PROTOCOLS = ["grpc", "grpc-web", "connect"];

describeWithRedis.each(RUNTIMES)("several workers on one port on %s", (runtime) => {
  const start = () => newServer({ runtime, redisUrl, env: { WORKERS: "2", LOG_LEVEL: "debug" } });

  it("the workers share the groups, and the metrics are the sums of all workers", async () => {
    const server = await start();
    const tokens = new Set<string>();
    for (let i = 0; i < 10; i++) {
      const response = await get(server, "/api/user?user_group_id=shared");
      tokens.add(((await response.json()) as { user_group: { token: string } }).user_group.token);
    }
    expect(tokens.size).toBe(1);
    const metrics = await (await get(server, "/metrics")).text();
    expect(metrics).toMatch(/grpc_server_handled_total\{[^}]*GetUserGroup[^}]*"rest"[^}]*grpc_code="OK"\} 10\n/);
    const started = performance.now();
    const seen = new Set<string>();
    // Each call uses a new connection, so each worker receives some calls.
    for (let i = 0; i < 20; i++) {
      const text = await (await get(server, "/metrics")).text();
      // Each collection of the metrics reports another CPU time, so the set has one entry per collection.
      seen.add(/^process_cpu_user_seconds_total (.+)$/m.exec(text)?.[1] ?? expect.fail("no CPU time"));
    }
    expect(seen.size).toBeLessThanOrEqual(2 + (performance.now() - started) / 250);
    expect(await server.stop()).toBe(0);
  });

  it("the workers serve every protocol over TLS, and the sums of their metrics on another port", async () => {
    const env = { WORKERS: "2", METRICS_PORT: "0", LOG_LEVEL: "debug" };
    const server = await newServer({ runtime, redisUrl, tls: certificates, env });
    const headers = { authorization: `Token ${server.tokens.customer}` };
    const { cert: ca } = certificates.ca;
    const calls = () => server.log().filter(({ msg }) => msg === "call");
    await waitFor("each worker has responded over each protocol", async () => {
      // Each client uses a new connection, so each worker receives some calls.
      for (const open of [createGrpcTransport, createGrpcWebTransport, createConnectTransport]) {
        for (const httpVersion of ["1.1", "2"] as const) {
          if (open === createGrpcTransport && httpVersion === "1.1") continue;
          const sessionManager = new Http2SessionManager(server.url, {}, { ca });
          const options = { baseUrl: server.url, httpVersion, nodeOptions: { ca, agent: false }, sessionManager };
          const client = createClient(UserGroupService, open(options as never));
          await client.getUserGroup({ userGroupId: "shared" }, { headers });
          sessionManager.abort();
        }
      }
      return PROTOCOLS.every(
        (protocol) =>
          new Set(calls().flatMap((line) => (line["protocol"] === protocol ? [line["pid"]] : []))).size === 2,
      );
    });
    const metricsUrl = metricsUrlOf(server);
    expect(metricsUrl).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
    const metrics = await (await fetch(`${metricsUrl}/metrics`, { headers: { connection: "close" } })).text();
    for (const protocol of PROTOCOLS) {
      const made = calls().filter((line) => line["protocol"] === protocol).length;
      expect(metrics).toMatch(
        new RegExp(
          `^grpc_server_handled_total\\{[^}]*GetUserGroup[^}]*"${protocol}"[^}]*grpc_code="OK"\\} ${made}$`,
          "m",
        ),
      );
    }
    expect(await server.stop()).toBe(0);
  });

  it("a crashed worker is replaced, and the metrics keep its counts", async () => {
    const server = await start();
    const [victim] = workerPids(server);
    for (let i = 0; i < 10; i++) await get(server, "/api/user?user_group_id=before");
    const counted = async () => {
      const text = await (await get(server, "/metrics")).text();
      const value = (series: RegExp) => Number(new RegExp(`^${series.source} (\\d+)$`, "m").exec(text)?.[1]);
      return [
        value(/grpc_server_handled_total\{[^}]*GetUserGroup[^}]*"rest"[^}]*"OK"\}/),
        value(/ugs_worker_exits_total/),
        value(/ugs_workers/),
      ];
    };
    expect(await counted()).toEqual([10, 0, 2]);
    process.kill(victim as number, "SIGKILL");
    await waitFor("a third worker is ready", () => workerPids(server).length === 3);
    // The metrics include the counts of the worker that exited, so that no counter decreases.
    await waitFor("the exit is counted", async () => String(await counted()) === "10,1,2");
    expect((await get(server, "/api/user?user_group_id=after")).status).toBe(200);
    expect(server.log().some(({ msg }) => msg === "a worker exited; the supervisor starts another worker")).toBe(true);
    expect(await server.stop()).toBe(0);
  });

  it("the workers return 503 instead of incomplete metrics while a worker hangs", async () => {
    const server = await start();
    for (let i = 0; i < 4; i++) await get(server, "/api/user?user_group_id=shared");
    const [, hung] = workerPids(server) as [number, number];
    process.kill(hung, "SIGSTOP");
    try {
      // The hanging worker does not answer requests. So send many requests, and use the first answer.
      const answer = await Promise.any(Array.from({ length: 20 }, () => get(server, "/metrics")));
      expect(answer.status).toBe(503);
      expect(await answer.text()).toBe("the metrics are incomplete: a worker did not answer\n");
      expect(server.log().some(({ msg }) => msg === "the metrics are incomplete: a worker did not answer")).toBe(true);
    } finally {
      process.kill(hung, "SIGCONT");
    }
    await waitFor("the metrics are complete again", async () => (await get(server, "/metrics")).status === 200);
    expect(await (await get(server, "/metrics")).text()).toMatch(/GetUserGroup[^}]*"rest"[^}]*grpc_code="OK"\} 4\n/);
    expect(await server.stop()).toBe(0);
  });

  it("all workers exit on a signal", async () => {
    const server = await start();
    const pids = workerPids(server);
    expect(pids).toHaveLength(2);
    expect(await server.stop()).toBe(0);
    for (const pid of pids) expect(() => process.kill(pid, 0)).toThrow("ESRCH");
  });

  it("the start fails if the port is in use", async () => {
    const server = await start();
    const port = new URL(server.url).port;
    await expect(newServer({ runtime, redisUrl, env: { WORKERS: "2", PORT: port } })).rejects.toThrow("EADDRINUSE");
  });
});

describeWithRedis("several workers on Deno", () => {
  it("several workers need the permission to run Deno, and the error reports how to grant the permission", async () => {
    const env = { WORKERS: "2", API_TOKENS: "e=0123456789abcdef" };
    const failing = newServerProcess({ runtime: "deno", redisUrl, env, denoFlags: [] });
    expect(await failing.exited()).toBe(1);
    const lines = failing.output().split("\n");
    expect(lines.filter((line) => line.startsWith("WORKERS above 1"))).toEqual([
      expect.stringMatching(/start the service with --allow-run=\/.*deno/),
    ]);
    expect(failing.output()).not.toMatch(/\n\s+at /);
  });
});
