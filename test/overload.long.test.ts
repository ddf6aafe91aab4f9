import type { OutgoingHttpHeaders } from "node:http";
import type { ClientHttp2Session, ClientHttp2Stream } from "node:http2";
import { connect } from "node:net";
import { create, toBinary } from "@bufbuild/protobuf";
import {
  answerOn,
  envelope,
  type HttpAnswer,
  http1,
  http2,
  http2On,
  openHttp2,
} from "@user-group-service/testing/http";
import { closeLater } from "@user-group-service/testing/opened";
import { RUNTIMES } from "@user-group-service/testing/runtime";
import { waitFor } from "@user-group-service/testing/wait";
import { beforeAll, expect, inject, it } from "vitest";
import { GetUserGroupRequestSchema } from "../gen/usergroup/v1/user_group_service_pb.ts";
import { describeWithRedis, suiteProxy, suiteServer } from "./support/opened.ts";
import { metricsUrlOf } from "./support/operations.ts";
import { expectConnectError, expectRestError } from "./support/rest-shape.ts";
import { linesOf } from "./support/server.ts";

const redisUrl = inject("redisUrl");
const GET_PATH = "/usergroup.v1.UserGroupService/GetUserGroup";

/** Maximum number of calls that wait or are in flight, per worker. */
const MAX_CALLS = 16_384;
const STREAMS = 32;

const CONNECTIONS = 20;

const IN_FLIGHT =
  'grpc_server_in_flight{grpc_type="unary",grpc_service="usergroup.v1.UserGroupService",grpc_method="GetUserGroup",protocol="rest"}';

class Calls {
  readonly #session: ClientHttp2Session;
  readonly #streams: ClientHttp2Stream[] = [];
  readonly statuses: (number | undefined)[] = [];

  constructor(url: string) {
    this.#session = openHttp2(url);
    closeLater(() => this.#session.destroy());
  }

  #collect(answer: Promise<HttpAnswer>): void {
    const settled = (status?: number) => void this.statuses.push(status);
    answer.then(
      ({ status }) => settled(status),
      () => settled(),
    );
  }

  get(requests: number, headers: OutgoingHttpHeaders): this {
    for (let i = 0; i < requests; i++) this.#collect(http2On(this.#session, "/api/user?user_group_id=a", { headers }));
    return this;
  }

  /** Sends calls that do not need Redis. */
  getCaller(requests: number, headers: OutgoingHttpHeaders): this {
    const path = "/usergroup.admin.v1.AdminService/GetCaller";
    for (let i = 0; i < requests; i++) {
      const stream = this.#session.request(
        { ":method": "POST", ":path": path, ...headers, "content-type": "application/json" },
        { endStream: false },
      );
      this.#streams.push(stream.end("{}"));
      this.#collect(answerOn(stream));
    }
    return this;
  }

  /**
   * Returns whether Node has passed all requests of `getCaller` to the kernel. Node sends headers before bodies, so the
   * check of the bodies is sufficient.
   */
  get isSent(): boolean {
    const isFinished = this.#streams.every(({ writableFinished }) => writableFinished);
    return isFinished && this.#session.socket.writableLength === 0;
  }
}

const newFlood = (url: string, count: number) => Array.from({ length: count }, () => new Calls(url));
const statusesOf = (flood: readonly Calls[]) => flood.flatMap(({ statuses }) => statuses);

// Runs only on Node. Deno reads the sockets one by one, so the order of the calls is random.
describeWithRedis("a busy worker", () => {
  const server = suiteServer(() => ({
    redisUrl,
    env: { TRUSTED_PROXIES: "127.0.0.1", AUTH_FAILURE_LIMIT: "off", LOG_LEVEL: "debug" },
  }));

  // In each case, all calls have the same status and take the same time. So the service answers the calls in the order
  // in which it starts them.
  it.each([
    ["environment", 200, () => [server.tokens.testing, server.tokens.customer]],
    ["address without a valid API token", 401, () => ["unknown", "unknown"]],
  ])(
    "answers a call before most calls of a flood from another %s, and refuses no call",
    async (_who, status, tokensOf) => {
      const [flooding, calling] = tokensOf();
      const [floodId, callId] = [`flood-${status}`, `call-${status}`];
      const headers = { authorization: `Token ${flooding}`, "x-forwarded-for": "192.0.2.1" };
      const mine = { authorization: `Token ${calling}`, "x-forwarded-for": "192.0.2.2" };
      const call = new Calls(server.url).getCaller(1, mine);
      const flood = newFlood(server.url, CONNECTIONS).map((calls) => calls.getCaller(1, headers));
      await waitFor("all connections are accepted", () => statusesOf([call, ...flood]).length === CONNECTIONS + 1);
      // While the process is stopped, it reads nothing. When the process resumes, it reads all requests together.
      server.signal("SIGSTOP");
      for (const calls of flood) calls.getCaller(STREAMS, { ...headers, "x-request-id": floodId });
      await waitFor("the flood is sent", () => flood.every(({ isSent }) => isSent));
      call.getCaller(1, { ...mine, "x-request-id": callId });
      await waitFor("the call is sent", () => call.isSent);
      server.signal("SIGCONT");
      const all = CONNECTIONS * STREAMS + 1;
      await waitFor("all calls are answered", () => statusesOf([call, ...flood]).length === CONNECTIONS + 1 + all);
      expect(call.statuses).toEqual([status, status]);
      expect(new Set(statusesOf(flood))).toEqual(new Set([status]));
      // The log contains the calls in the order in which the service answered the calls.
      const lines = linesOf(server.output);
      const logged = () => lines().filter(({ request_id: id }) => id === callId || id === floodId);
      await waitFor("the log contains all calls", () => logged().length === all);
      expect(logged().findIndex(({ request_id: id }) => id === callId)).toBeLessThan(all / 2);
    },
  );
});

describeWithRedis.each(RUNTIMES)("a flood over many HTTP/1.1 connections on %s", (runtime) => {
  const CONNECTIONS = 900;
  const server = suiteServer(() => ({ runtime, redisUrl }));

  it("a flood is answered, even if requests are pipelined or their bodies arrive later", async () => {
    const { port } = new URL(server.url);
    const fields = `host: a\r\nauthorization: Token ${server.tokens.customer}\r\n`;
    const get = `GET /api/user?user_group_id=a HTTP/1.1\r\n${fields}\r\n`;
    const body = '{"userGroupId":"a"}';
    const post = `POST ${GET_PATH} HTTP/1.1\r\n${fields}content-type: application/json\r\ncontent-length: ${body.length}\r\n`;
    const requests = [
      { first: get, later: "", answers: 1 },
      { first: get + get + get, later: "", answers: 3 },
      { first: `${post}\r\n${body}`, later: "", answers: 1 },
      { first: `${post}\r\n${body.slice(0, 9)}`, later: body.slice(9), answers: 1 },
      { first: `${post}expect: 100-continue\r\n\r\n`, later: body, answers: 1 },
    ];
    const connections = Array.from({ length: CONNECTIONS / requests.length }, () => requests)
      .flat()
      .map((request) => {
        const socket = connect(Number(port), "127.0.0.1");
        closeLater(() => socket.destroy());
        const connection = { ...request, socket, received: "" };
        socket.setEncoding("utf8").on("data", (text: string) => {
          connection.received += text;
        });
        return connection;
      });
    const areAnswered = (rounds: number) =>
      connections.every(({ received, answers }) => received.split("HTTP/1.1 200").length - 1 === 1 + rounds * answers);
    for (const { socket } of connections) socket.write(get);
    await waitFor("all connections are accepted", () => areAnswered(0));
    for (let round = 1; round <= 2; round++) {
      // While the process is stopped, it reads nothing. When the process resumes, it reads many calls together.
      server.signal("SIGSTOP");
      for (const { socket, first } of connections) socket.write(first);
      await waitFor("the flood is sent", () => connections.every(({ socket }) => socket.writableLength === 0));
      server.signal("SIGCONT");
      for (const { socket, later } of connections) socket.write(later);
      await waitFor("all calls are answered", () => areAnswered(round));
    }
  });
});

describeWithRedis.each(RUNTIMES)("a flood over many HTTP/2 connections on %s", (runtime) => {
  const server = suiteServer(() => ({ runtime, redisUrl }));
  const MAX_STREAMS = 100;

  it("a flood is answered, although the server stops reading from connections while too many calls wait", async () => {
    const headers = { authorization: `Token ${server.tokens.customer}` };
    const sessions = Array.from({ length: 60 }, () => openHttp2(server.url));
    for (const session of sessions) closeLater(() => session.destroy());
    await Promise.all(sessions.map((session) => http2On(session, "/api/user?user_group_id=a", { headers })));
    for (let round = 0; round < 2; round++) {
      // While the process is stopped, it reads nothing. When the process resumes, it reads many calls together.
      server.signal("SIGSTOP");
      const calls = sessions.flatMap((session) =>
        Array.from({ length: MAX_STREAMS }, () => http2On(session, "/api/user?user_group_id=a", { headers })),
      );
      await waitFor("all calls are sent", () => sessions.every(({ socket }) => socket.writableLength === 0));
      server.signal("SIGCONT");
      const statuses = (await Promise.all(calls)).map(({ status }) => status);
      expect(statuses).toContain(200);
      // On a slow machine, the service may refuse calls that have waited for too long.
      expect(statuses.filter((status) => status !== 200 && status !== 503)).toEqual([]);
    }
  });
});

describeWithRedis.each(RUNTIMES)("a server at the limit of calls in flight, on %s,", (runtime) => {
  const proxy = suiteProxy({ port: Number(redisUrl && new URL(redisUrl).port) });
  // The metrics have the label `environment` only if METRICS_PORT is set.
  const hasMetricsPort = runtime === "node";
  const server = suiteServer(() => ({
    runtime,
    redisUrl: proxy.url,
    env: { REDIS_TIMEOUT: "60s", ...(hasMetricsPort && { METRICS_PORT: "0" }) },
  }));
  const operationsUrl = () => (hasMetricsPort ? metricsUrlOf(server) : server.url);

  const bearer = () => `Token ${server.tokens.customer}`;

  beforeAll(async () => {
    await http1(server.url, "/api/user?user_group_id=a", { headers: { authorization: bearer() } });
  });

  async function metric(series: string): Promise<number> {
    const text = (await http1(operationsUrl(), "/metrics")).body.toString();
    const line = text.split("\n").find((each) => each.startsWith(`${series} `));
    return Number(line?.slice(series.length));
  }

  function expectRefusals(rest: HttpAnswer, connect: HttpAnswer, grpc: HttpAnswer, web: HttpAnswer): void {
    expectRestError(rest, { status: 503, code: "resource_exhausted", reason: "OVERLOADED" });
    expectConnectError(connect, "resource_exhausted", "OVERLOADED");
    for (const { headers } of [rest, connect, grpc]) expect(headers["retry-after"]).toBe("1");
    expect([grpc.status, grpc.headers["grpc-status"], grpc.body.byteLength]).toEqual([200, "8", 0]);
    const details = Buffer.from(String(grpc.headers["grpc-status-details-bin"]), "base64").toString("latin1");
    expect(details).toContain("OVERLOADED");
    expect(web.body.toString("latin1")).toMatch(/grpc-status: 8\r\n[\s\S]*/);
    expect(web.body.toString("latin1")).toContain("retry-after: 1\r\n");
  }

  it("rejects excess calls without a delay in every protocol, finishes accepted calls, and recovers", async () => {
    proxy.allow(0);
    const authorization = bearer();
    const flood: Calls[] = [];
    while (flood.length * STREAMS < MAX_CALLS) {
      flood.push(...newFlood(server.url, 64).map((calls) => calls.get(STREAMS, { authorization })));
      await waitFor("the calls are in flight", async () => (await metric(IN_FLIGHT)) === flood.length * STREAMS);
    }
    const message = envelope(
      toBinary(GetUserGroupRequestSchema, create(GetUserGroupRequestSchema, { userGroupId: "a" })),
    );
    const post = (type: string, body: string | Uint8Array) => ({
      method: "POST",
      headers: { authorization, "content-type": type },
      body,
    });
    for (const send of [http1, http2]) {
      expectRefusals(
        await send(server.url, "/api/user?user_group_id=a", { headers: { authorization } }),
        await send(server.url, GET_PATH, post("application/json", '{"userGroupId":"a"}')),
        await http2(server.url, GET_PATH, post("application/grpc", message)),
        await send(server.url, GET_PATH, post("application/grpc-web", message)),
      );
    }
    expect((await http1(operationsUrl(), "/healthz")).status).toBe(200);
    // The server caches its metrics for a moment, so the test waits for the new count.
    const environment = hasMetricsPort ? `,environment="${server.environment}/Customer"` : "";
    await waitFor(
      "the refusals are counted",
      async () => (await metric(`ugs_overloaded_total{cause="queue-full"${environment}}`)) === 8,
    );
    proxy.allow(Number.POSITIVE_INFINITY);
    await waitFor("the accepted calls are finished", () => statusesOf(flood).length === MAX_CALLS);
    expect(new Set(statusesOf(flood))).toEqual(new Set([200]));
    // The service was not ready while Redis was blocked, because a check waits for at most two seconds.
    await waitFor("the service is ready", async () => (await http1(operationsUrl(), "/readyz")).status === 200);
    const checked = await http1(server.url, "/grpc.health.v1.Health/Check", post("application/json", "{}"));
    expect(checked.json()).toEqual({ status: "SERVING" });
    expect((await http1(server.url, "/api/user?user_group_id=a", { headers: { authorization } })).status).toBe(200);
  });

  it("reserves no capacity for bodies that do not arrive", async () => {
    const { hostname, port } = new URL(server.url);
    const head = `POST ${GET_PATH} HTTP/1.1\r\nhost: x\r\nauthorization: ${bearer()}\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n`;
    const sockets = Array.from({ length: 2000 }, () => connect(Number(port), hostname).on("error", () => {}));
    closeLater(() => {
      for (const socket of sockets) socket.destroy();
    });
    for (const socket of sockets) socket.write(head);
    await waitFor("the headers are sent", () => sockets.every(({ writableLength }) => writableLength === 0));
    const { status } = await http1(server.url, "/api/user?user_group_id=a", { headers: { authorization: bearer() } });
    expect(status).toBe(200);
  });
});
