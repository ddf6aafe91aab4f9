import { request } from "node:http";
import {
  answerOn,
  answerTo,
  type HttpAnswer,
  http1,
  http2,
  openHttp2,
  rawBytes,
} from "@user-group-service/testing/http";
import { RUNTIMES } from "@user-group-service/testing/runtime";
import { waitFor } from "@user-group-service/testing/wait";
import { describe, expect, it } from "vitest";
import { suiteServer } from "./support/opened.ts";
import { expectConnectError, expectRestError } from "./support/rest-shape.ts";

const GET_PATH = "/usergroup.v1.UserGroupService/GetUserGroup";
const RESOLVE_PATH = "/usergroup.v1.ViewerService/ResolveViewer";

/** A kind of request, and the protocol of its response. */
interface WayIn {
  readonly name: string;
  readonly method: string;
  readonly path: string;
  readonly type: string | undefined;
  readonly protocol: "rest" | "connect" | "grpc" | "grpc-web";
  readonly http: readonly (1 | 2)[];
}

const WAYS: readonly WayIn[] = [
  ...(["GET", "PUT", "POST"] as const).map((method) => ({
    ...{ name: `REST ${method}`, method, path: "/api/user", type: "application/json" },
    ...{ protocol: "rest" as const, http: [1, 2] as const },
  })),
  { ...rpc("REST viewer", "application/json", "rest"), path: "/api/viewer" },
  rpc("Connect JSON", "application/json", "connect"),
  rpc("Connect binary", "application/proto", "connect"),
  { ...rpc("gRPC", "application/grpc+proto", "grpc"), http: [2] },
  rpc("gRPC-Web", "application/grpc-web+proto", "grpc-web"),
  rpc("gRPC-Web text", "application/grpc-web-text", "grpc-web"),
  // Only an authenticated caller receives the error for an unsupported content type.
  rpc("an unsupported content type", "text/plain", "connect"),
  rpc("no content type", undefined, "connect"),
  { ...rpc("gRPC with an unknown subtype", "application/grpc+thrift", "grpc"), http: [2] },
];

function rpc(name: string, type: string | undefined, protocol: WayIn["protocol"]): WayIn {
  return { name, method: "POST", path: GET_PATH, type, protocol, http: [1, 2] };
}

const CHALLENGE = 'Token realm="user-group-service"';

/** Sends a request with only the first byte of its body. Returns the response. */
function begin(url: string, way: WayIn, http: 1 | 2, headers: { readonly [name: string]: string } = {}) {
  const all = { ...(way.type !== undefined && { "content-type": way.type }), ...headers };
  return http === 1 ? beginHttp1(url, way, all) : beginHttp2(url, way, all);
}

function beginHttp1(url: string, { method, path }: WayIn, headers: { readonly [name: string]: string }) {
  const all = { "content-length": "1000000", ...headers };
  const req = request(new URL(path, url), { method, headers: all, agent: false });
  req.write("{");
  return answerTo(req).finally(() => req.destroy());
}

function beginHttp2(url: string, { method, path }: WayIn, headers: { readonly [name: string]: string }) {
  const session = openHttp2(url);
  const stream = session.request({ ":method": method, ":path": path, ...headers }, { endStream: false });
  stream.write("{");
  return answerOn(stream, "end").finally(() => session.destroy());
}

function expectRefusal(answer: HttpAnswer, { protocol, type }: WayIn, requestId: string): void {
  const { status, headers } = answer;
  if (protocol === "rest") {
    expectRestError(answer, { status: 401, code: "unauthenticated", reason: "API_TOKEN_MISSING" });
  } else if (protocol === "connect") {
    expect(status).toBe(401);
    expectConnectError(answer, "unauthenticated", "API_TOKEN_MISSING");
  }
  const text = type?.includes("-text") ? Buffer.from(String(answer.body), "base64") : answer.body;
  const reported =
    protocol === "grpc-web"
      ? Object.fromEntries([...text.toString("latin1").matchAll(/([\w-]+): ([^\r]*)/g)].map(([, k, v]) => [k, v]))
      : { ...headers };
  if (protocol === "grpc" || protocol === "grpc-web") {
    expect(status).toBe(200);
    expect(reported["grpc-status"]).toBe("16");
    expect(Buffer.from(String(reported["grpc-status-details-bin"]), "base64").toString("latin1")).toContain(
      "API_TOKEN_MISSING",
    );
  }
  expect(reported["www-authenticate"]).toBe(CHALLENGE);
  expect(reported["x-request-id"]).toBe(requestId);
}

describe.each(RUNTIMES)("without an API token on %s", (runtime) => {
  const server = suiteServer({ runtime, env: { LOG_LEVEL: "debug" } });

  for (const way of WAYS) {
    it.each(way.http)(`${way.name} over HTTP/%i is rejected before its body arrives, and logged`, async (http) => {
      const requestId = `${way.name.replaceAll(" ", "-")}-${http}`;
      expectRefusal(await begin(server.url, way, http, { "x-request-id": requestId }), way, requestId);
      const line = await waitFor("the rejection is logged", () =>
        server.log().find((found) => found["request_id"] === requestId),
      );
      expect(line).toMatchObject({ level: "debug", code: "unauthenticated", protocol: way.protocol });
      expect(line["method"]).toMatch(
        /^usergroup\.v1\.(UserGroupService\/(Get|Update|Rotate)UserGroup|ViewerService\/ResolveViewer)/,
      );
    });
  }

  it("only the missing API token is reported, even if the request has other errors", async () => {
    const json = { "content-type": "application/json" };
    for (const [path, headers, way] of [
      ["/api/user", { "content-type": "text/plain" }, "rest"],
      ["/api/user", { ...json, "content-encoding": "zip" }, "rest"],
      [RESOLVE_PATH, { ...json, "content-encoding": "zip" }, "connect"],
      [RESOLVE_PATH, { ...json, "connect-timeout-ms": "x" }, "connect"],
    ] as const) {
      const answer = await http1(server.url, path, { method: "POST", headers, body: "{" });
      if (way === "rest") {
        expectRestError(answer, { status: 401, code: "unauthenticated", reason: "API_TOKEN_MISSING" });
      } else expectConnectError(answer, "unauthenticated", "API_TOKEN_MISSING");
    }
    const grpc = { "content-type": "application/grpc", "grpc-encoding": "zip" };
    const { headers } = await http2(server.url, GET_PATH, { method: "POST", headers: grpc, body: "{" });
    expect(headers["grpc-status"]).toBe("16");
  });

  it("an HTTP method that the path does not support is rejected with METHOD_NOT_ALLOWED", async () => {
    expectRestError(await http1(server.url, "/api/user", { method: "DELETE" }), {
      ...{ status: 405, code: "unimplemented", reason: "METHOD_NOT_ALLOWED" },
    });
  });

  it("the service rejects a call without reading the body, and the connection stays usable", async () => {
    const body = "x".repeat(100_000);
    const head = `POST ${GET_PATH} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 100000\r\n\r\n`;
    const next = "GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n";
    const { bytes } = await rawBytes(server.url, head + body + next, (soFar) => soFar.includes("ok\n"));
    expect(bytes.toString()).toMatch(/^HTTP\/1\.1 401 [\s\S]*HTTP\/1\.1 200 /);
    const session = openHttp2(server.url);
    for (let i = 0; i < 200; i++) {
      const stream = session.request({ ":method": "POST", ":path": GET_PATH, "content-type": "application/json" });
      stream.on("error", () => {});
      stream.end(body);
      const status = await new Promise((resolve, reject) => {
        stream.on("response", (headers) => resolve(headers[":status"]));
        stream.on("close", () => reject(new Error(`closed without a response, after ${i} requests`)));
      });
      expect(status).toBe(401);
      // Wait until the stream is closed. Until then, the unsent data of this request counts towards the memory limit of
      // the session in Node, and the next request could exceed the limit.
      await new Promise((resolve) => stream.once("close", resolve).resume());
    }
    session.destroy();
  });

  it("a request with Expect: 100-continue is rejected, and receives no 100 Continue", async () => {
    const session = openHttp2(server.url);
    const headers = { ":method": "PUT", ":path": "/api/user", expect: "100-continue" };
    const stream = session.request(headers, { endStream: false });
    let continued = false;
    stream.on("continue", () => {
      continued = true;
    });
    const status = await new Promise((resolve, reject) => {
      stream.on("error", reject);
      stream.on("response", (received) => resolve(received[":status"]));
    });
    expect([status, continued]).toEqual([401, false]);
    session.destroy();
  });
});
