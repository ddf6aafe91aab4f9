import { once } from "node:events";
import { request } from "node:http";
import { connect as connectHttp2 } from "node:http2";
import { brotliDecompressSync, gunzipSync } from "node:zlib";
import { create, toBinary } from "@bufbuild/protobuf";
import { createClient } from "@connectrpc/connect";
import { createConnectTransport, createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";
import { envelope, http1, http2 } from "@user-group-service/testing/http";
import { RUNTIMES } from "@user-group-service/testing/runtime";
import { waitFor } from "@user-group-service/testing/wait";
import { beforeAll, describe, expect, it } from "vitest";
import { Health } from "../gen/grpc/health/v1/health_pb.ts";
import { ServerReflectionRequestSchema } from "../gen/grpc/reflection/v1/reflection_pb.ts";
import { suiteServer } from "./support/opened.ts";
import { type Metrics, metricsOf } from "./support/operations.ts";

const GET = "/usergroup.v1.UserGroupService/GetUserGroup";
/** The `Accept` header of Prometheus 3. */
const ACCEPT =
  "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,text/plain;version=0.0.4;q=0.2,*/*;q=0.1";

describe.each(RUNTIMES)("metrics on %s", (runtime) => {
  const server = suiteServer({ runtime, env: { LOG_LEVEL: "debug" } });
  let headers: { authorization: string; "content-type": string };
  let first = "";
  beforeAll(async () => {
    first = (await http1(server.url, "/metrics")).body.toString();
    headers = { authorization: `Token ${server.tokens.customer}`, "content-type": "application/json" };
  });

  const metrics = () => metricsOf(server);

  const ofGet = { grpc_service: "usergroup.v1.UserGroupService", grpc_method: "GetUserGroup", grpc_type: "unary" };
  const ofWatch = { grpc_service: "grpc.health.v1.Health", grpc_method: "Watch", protocol: "grpc" };
  const ofReflection = { grpc_service: "grpc.reflection.v1.ServerReflection", protocol: "grpc" };
  const unknown = { grpc_service: "unknown", grpc_method: "unknown" };

  it("the series of every method exist before the first call, with the value 0", async () => {
    for (const protocol of ["grpc", "grpc-web", "connect", "rest"]) {
      const labels = `grpc_type="unary",grpc_service="usergroup.v1.UserGroupService",grpc_method="GetUserGroup",protocol="${protocol}"`;
      expect(first).toContain(`grpc_server_started_total{${labels}} 0\n`);
      expect(first).toContain(`grpc_server_in_flight{${labels}} 0\n`);
      expect(first).toContain(`grpc_server_handling_seconds_count{${labels}} 0\n`);
      for (const code of ["OK", "InvalidArgument", "Unauthenticated", "Internal", "Unavailable", "Canceled"]) {
        expect(first).toContain(`grpc_server_handled_total{${labels},grpc_code="${code}"} 0\n`);
      }
    }
    expect(first).toContain('grpc_method="ServerReflectionInfo"');
  });

  it("resolutions of viewers are counted by credential and result", async () => {
    const results = ["resolved", "TOKEN_NOT_FOUND", "VIEWER_SESSION_INVALID", "VIEWER_SESSION_ENDED"];
    const counts = async () => {
      const value = await metrics();
      const of = (by: string) => results.map((result) => value("ugs_viewer_resolves_total", { by, result }) ?? 0);
      return { token: of("token"), session: of("session") };
    };
    const post = async (path: string, body: object) => {
      const answer = await http1(server.url, path, { method: "POST", headers, body: JSON.stringify(body) });
      return JSON.parse(answer.body.toString());
    };
    expect(first).toContain('ugs_viewer_resolves_total{by="token",result="resolved"} 0\n');
    expect(first).toContain('ugs_viewer_resolves_total{by="session",result="resolved"} 0\n');
    const group = await http1(server.url, "/api/user?user_group_id=viewers", { headers });
    const { token } = JSON.parse(group.body.toString()).user_group;
    const { session } = await post("/api/viewer/session", { token, audience: "metrics" });
    const before = await counts();
    expect((await post("/api/viewer", { token })).active).toBe(true);
    for (let i = 0; i < 2; i++) expect((await post("/api/viewer", { token: session })).active).toBe(true);
    await post("/api/viewer", { token: `${session}x` });
    // If a rotation has no grace period, it revokes the token and the sessions of the token.
    await post("/api/user", { current_token: token });
    await post("/api/viewer", { token });
    await post("/api/viewer", { token: session });
    const [risen, after] = [{ token: [1, 1, 0, 0], session: [2, 0, 1, 1] }, await counts()];
    expect(after.token).toEqual(before.token.map((count, i) => count + (risen.token[i] ?? 0)));
    expect(after.session).toEqual(before.session.map((count, i) => count + (risen.session[i] ?? 0)));
  });

  it("started and finished calls are counted by protocol and code", async () => {
    const codes = [
      { grpc_code: "OK", protocol: "rest" },
      { grpc_code: "Unauthenticated", protocol: "grpc" },
      { grpc_code: "InvalidArgument", protocol: "connect" },
      { grpc_code: "InvalidArgument", protocol: "rest" },
    ];
    const countsOf = (value: Metrics) =>
      codes.map((labels) => value("grpc_server_handled_total", { ...ofGet, ...labels }));
    const before = countsOf(await metrics());
    await http1(server.url, "/api/user", { headers, body: '{"user_group_id":"metrics"}' });
    const grpc = { "content-type": "application/grpc", te: "trailers" };
    await http2(server.url, GET, { method: "POST", headers: grpc, body: envelope(Buffer.alloc(0)) });
    await http1(server.url, GET, { method: "POST", headers, body: "{" });
    await http1(server.url, "/api/user", { headers, body: "{" });
    const value = await metrics();
    expect(countsOf(value)).toEqual(before.map((count) => (count ?? 0) + 1));
    for (const protocol of ["rest", "grpc", "connect"]) {
      const started = value("grpc_server_started_total", { ...ofGet, protocol });
      expect(value("grpc_server_handling_seconds_count", { ...ofGet, protocol })).toBe(started);
      expect(value("grpc_server_in_flight", { ...ofGet, protocol })).toBe(0);
    }
  });

  it("the duration of a rejected request is measured from its arrival", async () => {
    const seconds = async () =>
      (await metrics())("grpc_server_handling_seconds_sum", { ...ofGet, protocol: "connect" });
    const before = (await seconds()) ?? 0;
    const { hostname, port } = new URL(server.url);
    await new Promise<void>((resolve, reject) => {
      const sent = { ...headers, "content-length": 4, expect: "100-continue" };
      const slow = request({ hostname, port, path: GET, method: "POST", headers: sent });
      slow.on("response", (res) => res.resume().on("end", resolve));
      slow.on("error", reject);
      // The server has now received the headers of the request.
      slow.on("continue", () => {
        slow.write("{");
        setTimeout(() => slow.end("x  "), 400);
      });
    });
    expect(((await seconds()) ?? 0) - before).toBeGreaterThan(0.3);
  });

  it("calls to unknown paths are counted under one name for each protocol", async () => {
    const counts = async () => {
      const value = await metrics();
      const of = (protocol: string) => value("grpc_server_handled_total", { ...unknown, protocol });
      return { rest: of("rest"), others: [of("grpc"), of("connect"), of("none")] };
    };
    const before = await counts();
    for (let i = 0; i < 20; i++) {
      const grpc = { "content-type": "application/grpc", te: "trailers" };
      await http2(server.url, `/none.Service${i}/Method${i}`, {
        method: "POST",
        headers: grpc,
        body: envelope(Buffer.alloc(0)),
      });
      await http1(server.url, `/none.Service${i}/Method${i}`, { method: "POST", headers, body: "{}" });
      await http1(server.url, `/nowhere${i}`);
    }
    expect(await counts()).toEqual({ rest: before.rest, others: before.others.map((count) => (count ?? 0) + 20) });
    const { body } = await http1(server.url, "/metrics");
    expect(body.toString()).not.toMatch(/Service1\d|Method1\d|nowhere/);
  });

  /** Opens a health watch, and returns a function that closes the watch. */
  async function watch(protocol: "grpc" | "connect", how: "abort" | "disconnect") {
    const sessionManager = new Http2SessionManager(server.url);
    const transport =
      protocol === "grpc"
        ? createGrpcTransport({ baseUrl: server.url, sessionManager })
        : createConnectTransport({ baseUrl: server.url, httpVersion: "1.1" });
    const controller = new AbortController();
    const options = { signal: controller.signal };
    const watching = createClient(Health, transport).watch({ service: "" }, options)[Symbol.asyncIterator]();
    await watching.next();
    return async () => {
      if (how === "abort") controller.abort();
      else sessionManager.abort();
      await expect(watching.next()).rejects.toThrow();
      sessionManager.abort();
    };
  }

  /** Opens a reflection stream with an unfinished request, and returns a function that closes the connection. */
  async function reflect() {
    const session = connectHttp2(server.url);
    const stream = session.request({
      ":method": "POST",
      ":path": "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
      "content-type": "application/grpc",
      te: "trailers",
    });
    const question = { messageRequest: { case: "listServices", value: "" } } as const;
    const message = create(ServerReflectionRequestSchema, question);
    stream.on("error", () => {}).write(envelope(toBinary(ServerReflectionRequestSchema, message)));
    await once(stream, "data");
    // Close the whole connection. If the test closed only the stream, the client would first finish the request.
    return () => session.destroy();
  }

  it.each([
    ["that the client aborts over gRPC", ofWatch, () => watch("grpc", "abort")],
    ["that the client aborts over Connect", { ...ofWatch, protocol: "connect" }, () => watch("connect", "abort")],
    ["whose connection breaks", ofWatch, () => watch("grpc", "disconnect")],
    ["whose connection breaks during its request", ofReflection, reflect],
  ])("a stream %s counts as canceled, and the log contains no error", async (_title, labels, begin) => {
    const countsOf = (value: Metrics) => {
      const of = (grpc_code: string) => Number(value("grpc_server_handled_total", { ...labels, grpc_code }));
      return { canceled: of("Canceled"), others: [of("Internal"), of("OK")] };
    };
    const before = countsOf(await metrics());
    const end = await begin();
    expect((await metrics())("grpc_server_in_flight", labels)).toBe(1);
    await end();
    const value = await waitFor("the stream is counted", async () => {
      const read = await metrics();
      return countsOf(read).canceled === before.canceled + 1 ? read : undefined;
    });
    expect(countsOf(value).others).toEqual(before.others);
    expect(value("grpc_server_in_flight", labels)).toBe(0);
    // The metrics contain no duration of a watch, because the client decides how long a watch lasts.
    expect(value("grpc_server_handling_seconds_count", labels)).toBeUndefined();
    expect(server.log().filter(({ level }) => level === "error")).toEqual([]);
  });

  it("metrics are collected at most four times a second, for any number of requests", async () => {
    const started = performance.now();
    const seen = new Set<string>();
    for (let i = 0; i < 20; i++) {
      const { body } = await http1(server.url, "/metrics");
      // Each collection of the metrics takes CPU time, and reports a new total. So the set has a value per collection.
      seen.add(/^process_cpu_user_seconds_total (.+)$/m.exec(body.toString())?.[1] ?? expect.fail("no CPU time"));
      expect((await http1(server.url, "/metrics", { method: "HEAD" })).status).toBe(200);
    }
    expect(seen.size).toBeLessThanOrEqual(2 + (performance.now() - started) / 250);
  });

  it.each([undefined, ACCEPT, "application/json"])(
    "metrics have the text format of Prometheus for Accept: %s",
    async (accept) => {
      const { headers } = await http1(server.url, "/metrics", { headers: { ...(accept && { accept }) } });
      expect(headers["content-type"]).toMatch(/^text\/plain; version=0\.0\.4/);
    },
  );

  it("metrics are compressed on request", async () => {
    const zipped = await http1(server.url, "/metrics", { headers: { "accept-encoding": "gzip, deflate" } });
    expect(zipped.headers["content-encoding"]).toBe("gzip");
    expect(zipped.headers["vary"]).toBe("accept-encoding");
    expect(gunzipSync(zipped.body).toString()).toContain("grpc_server_started_total{");
    expect(zipped.body.byteLength).toBe(Number(zipped.headers["content-length"]));
    const { headers, body } = await http1(server.url, "/metrics", { headers: { "accept-encoding": "br" } });
    expect(headers["content-encoding"]).toBe("br");
    expect(brotliDecompressSync(body).toString()).toContain("grpc_server_started_total{");
    for (const encoding of ["gzip;q=0", "identity"]) {
      const plain = await http1(server.url, "/metrics", { headers: { "accept-encoding": encoding } });
      expect(plain.headers["content-encoding"]).toBeUndefined();
    }
  });
});
