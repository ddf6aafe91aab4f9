import { join } from "node:path";
import { create, toBinary } from "@bufbuild/protobuf";
import { http1 } from "@user-group-service/testing/http";
import { orLeaveOut } from "@user-group-service/testing/on-path";
import { newProcess } from "@user-group-service/testing/opened";
import { startProcess } from "@user-group-service/testing/process";
import type { Runtime } from "@user-group-service/testing/runtime";
import { freePort, waitFor } from "@user-group-service/testing/wait";
import { expect, it } from "vitest";
import { GetUserGroupRequestSchema } from "../gen/usergroup/v1/user_group_service_pb.ts";
import { pythonWithGrpcio, STEADY } from "./support/grpcio.ts";
import { describeWithRedis, newServer, redisUrl } from "./support/opened.ts";
import { newEnvoy, newHaproxy, newNginx, waitUntilListening } from "./support/proxies.ts";
import { deployPrograms } from "./support/python.ts";
import type { TestServer } from "./support/server.ts";
import { CLIENTS, type SteadyCalls } from "./support/steady-calls.ts";
import { newTcpBalancer } from "./support/tcp-balancer.ts";

const python = pythonWithGrpcio();
const nginx = orLeaveOut("nginx", "restarts behind nginx are");
const haproxy = orLeaveOut("haproxy", "restarts behind HAProxy are");
const programs = deployPrograms();

/** Number of restarts. The two servers restart in turn. */
const RESTARTS = 6;

/** Minimum number of responses between two restarts. */
const ANSWERS = 100;

/** Number of restarts behind proxies. A proxy needs seconds to detect a restart. */
const PROXIED_RESTARTS = 2;

/**
 * The installed proxies. `clients` maps each client to the proxy's port for this client. nginx gets no gRPC client,
 * because nginx does not retry gRPC calls.
 */
const PROXIES = [
  { name: "nginx", program: nginx, begin: newNginx, clients: { "node:http, REST": 8082 } },
  { name: "HAProxy", program: haproxy, begin: newHaproxy, clients: { "grpc-js": 8083, "node:http, REST": 8084 } },
  {
    ...{ name: "Envoy", program: programs && join(programs, "envoy"), begin: newEnvoy },
    clients: { "grpc-js": 8085, "node:http, REST": 8085 },
  },
].filter(({ program }) => program !== undefined);

async function newPair(runtime: Runtime, env: { [name: string]: string } = {}) {
  const ports = [await freePort(), await freePort()] as const;
  const start = (i: 0 | 1, like?: TestServer) => {
    return newServer({ runtime, redisUrl, env: { ...env, PORT: String(ports[i]) }, ...(like && { like }) });
  };
  const first = await start(0);
  const servers: [TestServer, TestServer] = [first, await start(1, first)];
  const restart = async (i: 0 | 1) => {
    expect(await servers[i].stop()).toBe(0);
    servers[i] = await start(i, first);
  };
  return { ports, servers, restart, token: first.tokens.customer };
}

describeWithRedis("servers that are restarted in turn", () => {
  it.each(Object.entries(CLIENTS))("restarts lose no call of %s behind a TCP load balancer", async (_name, begin) => {
    const { ports, restart, token } = await newPair("node");
    const calls = begin({ url: await newTcpBalancer(ports), token });
    await restartUnder(calls, restart);
    expect(calls.faults).toEqual({});
  });

  it("restarts lose no call over HTTP/1.1 keep-alive connections on Deno", async () => {
    const { ports, restart, token } = await newPair("deno");
    const calls = CLIENTS["node:http, REST"]?.({ url: await newTcpBalancer(ports), token }) as SteadyCalls;
    await restartUnder(calls, restart);
    expect(calls.faults).toEqual({});
  });

  it.skipIf(PROXIES.length < 2)(
    "restarts lose no gRPC or REST call behind HAProxy and Envoy, and no REST call behind nginx",
    async () => {
      const { servers, restart, token } = await newPair("node", { SHUTDOWN_DELAY: "5s" });
      const urls = servers.map(({ url }) => url);
      const faults: { [client: string]: SteadyCalls["faults"] } = {};
      const begun: SteadyCalls[] = [];
      for (const { name, program = "", begin, clients } of PROXIES) {
        const at = await begin(program, ...urls);
        for (const [client, port] of Object.entries(clients)) {
          await waitUntilListening(at(port));
          const calls = CLIENTS[client]?.({ url: at(port), token }) as SteadyCalls;
          begun.push(calls);
          faults[`${client} behind ${name}`] = calls.faults;
        }
      }
      const bothAnswer = async () => {
        for (const server of servers) {
          await waitFor("the server serves calls", async () => (await answeredBy(server)) > ANSWERS / 2);
        }
      };
      for (let i = 0; i < PROXIED_RESTARTS; i++) {
        await bothAnswer();
        await restart((i % 2) as 0 | 1);
      }
      await bothAnswer();
      for (const calls of begun) await calls.end();
      expect(faults).toEqual(Object.fromEntries(Object.keys(faults).map((client) => [client, {}])));
    },
  );

  it.skipIf(python === undefined)("restarts lose no call of grpcio with client-side load balancing", async () => {
    const { ports, servers, restart, token } = await newPair("node");
    const message = toBinary(GetUserGroupRequestSchema, create(GetUserGroupRequestSchema, { userGroupId: "steady" }));
    const path = "/usergroup.v1.UserGroupService/GetUserGroup";
    const hosts = ports.map((port) => `127.0.0.1:${port}`).join(",");
    const script = [python ?? "", STEADY, hosts, path, Buffer.from(message).toString("hex"), token];
    const client = newProcess(startProcess(script));
    for (let i = 0; i < RESTARTS; i++) {
      const next = servers[(i % 2) as 0 | 1];
      // Both servers must serve calls before the next restart.
      for (const server of [next, servers[((i + 1) % 2) as 0 | 1]]) {
        await waitFor("the server serves calls", async () => (await answeredBy(server)) > ANSWERS / 2);
      }
      await restart((i % 2) as 0 | 1);
    }
    client.endInput();
    expect(await client.exited()).toBe(0);
    const { OK, ...faults } = JSON.parse(client.output()) as { [outcome: string]: number };
    expect(faults).toEqual({});
    expect(OK).toBeGreaterThan((RESTARTS * ANSWERS) / 2);
  });
});

async function answeredBy({ url }: TestServer): Promise<number> {
  const text = (await http1(url, "/metrics")).body.toString();
  return Number(/^grpc_server_handled_total\{.*GetUserGroup".*"grpc",grpc_code="OK"\} (\d+)$/m.exec(text)?.[1] ?? 0);
}

async function restartUnder(calls: SteadyCalls, restart: (i: 0 | 1) => Promise<void>): Promise<void> {
  const more = () => {
    const before = calls.answered();
    const isOver = () => calls.answered() > before + ANSWERS || Object.keys(calls.faults).length > 0;
    return waitFor("more calls succeed", isOver);
  };
  for (let i = 0; i < RESTARTS; i++) {
    await more();
    await restart((i % 2) as 0 | 1);
  }
  await more();
  await calls.end();
}
