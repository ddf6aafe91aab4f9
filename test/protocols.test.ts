import { connect as connectHttp2, constants } from "node:http2";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { envelope, type HttpAnswer, http1, http2 } from "@user-group-service/testing/http";
import { RUNTIMES } from "@user-group-service/testing/runtime";
import { describe, expect, it } from "vitest";
import {
  HealthCheckRequestSchema,
  HealthCheckResponse_ServingStatus,
  HealthCheckResponseSchema,
} from "../gen/grpc/health/v1/health_pb.ts";
import { GetUserGroupRequestSchema } from "../gen/usergroup/v1/user_group_service_pb.ts";
import { ADMIN_TOKEN } from "./support/admin.ts";
import { newId } from "./support/matrix.ts";
import { sharedServer } from "./support/opened.ts";
import { expectConnectError, expectRestError } from "./support/rest-shape.ts";

const GET_PATH = "/usergroup.v1.UserGroupService/GetUserGroup";
const WATCH_PATH = "/grpc.health.v1.Health/Watch";
const TEXT = "application/grpc-web-text";

const watchRequest = envelope(toBinary(HealthCheckRequestSchema, create(HealthCheckRequestSchema))).toString("base64");

/** Calls Watch over gRPC-Web text. Sends the message in several chunks. @returns the first response */
async function watchText(url: string, pieces: readonly string[]) {
  const ended = new AbortController();
  const body = new ReadableStream({
    start(controller) {
      for (const piece of pieces) controller.enqueue(Buffer.from(piece));
      controller.close();
    },
  });
  const init = { method: "POST", headers: { "content-type": TEXT }, body, duplex: "half", signal: ended.signal };
  const response = await fetch(url + WATCH_PATH, init as RequestInit);
  let bytes = Buffer.alloc(0);
  let text = "";
  for await (const chunk of response.body ?? []) {
    text += Buffer.from(chunk).toString("latin1");
    bytes = Buffer.from(text, "base64");
    if (bytes.byteLength >= 7) break;
  }
  ended.abort();
  const message = fromBinary(HealthCheckResponseSchema, bytes.subarray(5, 5 + bytes.readUInt32BE(1)));
  return { status: response.status, type: response.headers.get("content-type"), message };
}

const SERVING = { status: HealthCheckResponse_ServingStatus.SERVING };

describe.each(RUNTIMES)("on %s", (runtime) => {
  const server = sharedServer({ runtime });
  const authorization = () => `Token ${server.tokens.customer}`;

  it("an unknown gRPC method is reported in a single header frame that ends the stream", async () => {
    const session = connectHttp2(server.url);
    const headers = { ":method": "POST", ":path": "/a.B/C", "content-type": "application/grpc" };
    const stream = session.request(headers, { endStream: false });
    stream.end(envelope(Buffer.alloc(3)));
    const flags = await new Promise<number>((resolve, reject) => {
      stream.on("error", reject);
      stream.on("response", (_headers, reported) => resolve(reported));
    });
    expect(flags & constants.NGHTTP2_FLAG_END_STREAM).toBe(constants.NGHTTP2_FLAG_END_STREAM);
    session.destroy();
  });

  describe("unsupported HTTP methods and content types", () => {
    const connect = (
      answer: HttpAnswer,
      expected: { status: number; code: string; reason: string; allow?: string },
    ) => {
      expect([answer.status, answer.headers["allow"]]).toEqual([expected.status, expected.allow]);
      expect(answer.headers["x-request-id"]).toBe("mine");
      expectConnectError(answer, expected.code, expected.reason);
    };
    const headers = () => ({ authorization: authorization(), "x-request-id": "mine" });

    it.each([GET_PATH, WATCH_PATH])("%s rejects unsupported methods and content types", async (target) => {
      const notAllowed = { status: 405, code: "unimplemented", reason: "METHOD_NOT_ALLOWED", allow: "POST" };
      const unsupported = { status: 415, code: "invalid_argument", reason: "UNSUPPORTED_MEDIA_TYPE" };
      for (const send of [http1, http2]) {
        for (const method of ["GET", "PUT", "DELETE", "OPTIONS"]) {
          // The service does not support GET requests of Connect, because their URLs would contain a token.
          const query = method === "GET" ? "?encoding=json&message=%7B%7D&connect=v1" : "";
          const answer = await send(server.url, target + query, { method, headers: headers() });
          connect(answer, notAllowed);
        }
        const head = await send(server.url, target, { method: "HEAD", headers: headers() });
        expect([head.status, head.headers["allow"], head.body.byteLength]).toEqual([405, "POST", 0]);
        expect(head.headers["x-request-id"]).toBe("mine");
        for (const type of ["text/plain", "application/connect+thrift", "multipart/form-data"]) {
          const all = { ...headers(), "content-type": type };
          const answer = await send(server.url, target, { method: "POST", headers: all, body: "x" });
          connect(answer, unsupported);
        }
        const none = await send(server.url, target, { method: "POST", headers: headers(), body: "x" });
        connect(none, unsupported);
      }
    });

    it.each([GET_PATH, WATCH_PATH])("%s reports unsupported gRPC content types as gRPC specifies", async (target) => {
      const all = { ...headers(), "content-type": "application/grpc+thrift" };
      const answer = await http2(server.url, target, { method: "POST", headers: all, body: envelope(Buffer.alloc(1)) });
      expect([answer.status, answer.headers["grpc-status"], answer.body.byteLength]).toEqual([200, "3", 0]);
      expect(answer.headers["x-request-id"]).toBe("mine");
    });
  });

  it("non-ASCII bytes in a path are rejected, and the error recommends percent-encoding", async () => {
    const id = newId().replaceAll(/[^\w]/g, "");
    const headers = { authorization: authorization() };
    const raw = Buffer.from(`/api/user?user_group_id=${id}-café`).toString("latin1");
    const answer = await http2(server.url, raw, { headers });
    expectRestError(answer, { status: 400, code: "invalid_argument", reason: "MALFORMED_HTTP" });
    expect(answer.json<{ error: { message: string } }>().error.message).toContain("percent-encode");
    for (const target of ["/api/user/é", "/é", `${GET_PATH}?é`].map((path) => Buffer.from(path).toString("latin1"))) {
      expect((await http2(server.url, target, { method: "POST", headers })).status).toBe(400);
    }
    const encoded = await http2(server.url, `/api/user?user_group_id=${id}-caf%C3%A9`, { headers });
    expect(encoded.json()).toMatchObject({ new_user_group: true, user_group: { provided_id: `${id}-café` } });
  });

  it("a request whose target is an absolute URL is served by the path of the URL", async () => {
    const headers = { authorization: authorization(), host: "elsewhere.example.com" };
    const id = newId();
    const target = `http://here.example.com:81/api/user?user_group_id=${encodeURIComponent(id)}`;
    expect((await http1(server.url, target, { headers })).json()).toMatchObject({ user_group: { provided_id: id } });
    for (const healthz of ["http://x/healthz", "HTTP://x/healthz?a", "https://x/healthz"]) {
      expect((await http1(server.url, healthz)).status).toBe(200);
    }
    const post = { method: "POST", headers: { ...headers, "content-type": "application/json" }, body: "{}" };
    const rpc = await http1(server.url, `http://x${GET_PATH}`, post);
    expectConnectError(rpc, "invalid_argument", "VALIDATION_FAILED");
    for (const nowhere of ["http://x", "http://x?y", "ftp://x/healthz"]) {
      expectRestError(await http1(server.url, nowhere), {
        ...{ status: 404, code: "not_found", reason: "PATH_NOT_FOUND" },
      });
    }
    const grpcWeb = { "content-type": "application/grpc-web+proto" };
    const stream = await http1(server.url, `http://x/grpc.health.v1.Health/Check`, {
      ...{ method: "POST", headers: grpcWeb, body: envelope(Buffer.alloc(0)) },
    });
    expect(stream.body.toString("latin1")).toContain("grpc-status: 0");
  });

  it.each(["300s of grace", "300s ", "1s1s"])("the duration %j is rejected over Connect", async (previousTokenTtl) => {
    const headers = { authorization: authorization(), "content-type": "application/json" };
    for (const name of ["previousTokenTtl", "previous_token_ttl"]) {
      const body = JSON.stringify({ userGroupId: "a", [name]: previousTokenTtl });
      const target = "/usergroup.v1.UserGroupService/RotateUserGroupToken";
      const answer = await http1(server.url, target, { method: "POST", headers, body });
      expectConnectError(answer, "invalid_argument", "MALFORMED_REQUEST");
      expect(answer.body.toString()).toContain("previous_token_ttl");
    }
  });

  it.each(["2026-02-30T00:00:00Z", "2026-01-01T24:00:00Z"])("the time %s is rejected over Connect", async (endTime) => {
    const headers = { authorization: `Token ${ADMIN_TOKEN}`, "content-type": "application/json" };
    const target = "/usergroup.admin.v1.AdminService/ListAuditEvents";
    const body = JSON.stringify({ startTime: "2026-02-28T00:00:00Z", endTime });
    const answer = await http1(server.url, target, { method: "POST", headers, body });
    expectConnectError(answer, "invalid_argument", "MALFORMED_REQUEST");
    expect(answer.body.toString()).toContain("end_time: must be a time of RFC 3339");
  });

  describe("gRPC-Web text", () => {
    it("gRPC-Web text is decoded even if it arrives in several chunks", async () => {
      const type = "application/grpc-web-text+proto";
      for (const pieces of [[watchRequest], [...watchRequest], [watchRequest.slice(0, 3), watchRequest.slice(3)]]) {
        const { status: answered, message, type: reported } = await watchText(server.url, pieces);
        expect([answered, reported]).toEqual([200, type]);
        expect(message).toMatchObject(SERVING);
      }
    });

    it("gRPC-Web text is rejected if it is invalid, or too large for an endpoint without an API token", async () => {
      for (const body of ["####", Buffer.from(envelope(Buffer.alloc(5000))).toString("base64")]) {
        const headers = { "content-type": TEXT };
        const answer = await http1(server.url, WATCH_PATH, { method: "POST", headers, body });
        expect(Buffer.from(answer.body.toString(), "base64").toString("latin1")).toMatch(/grpc-status: (3|8)\r\n/);
      }
    });

    it("gRPC-Web text is rejected if its message exceeds the size limit", async () => {
      const headers = { authorization: authorization(), "content-type": TEXT };
      for (let over = 0; over < 4; over++) {
        const body = `${"A".repeat(1_398_200 + over)}${"A".repeat(20_000)}`;
        const answer = await http1(server.url, GET_PATH, { method: "POST", headers, body });
        const reported = Buffer.from(answer.body.toString(), "base64").toString("latin1");
        expect(reported).toContain("grpc-status: 8\r\n");
      }
      const name = "x".repeat(1_100_000);
      const message = toBinary(
        GetUserGroupRequestSchema,
        create(GetUserGroupRequestSchema, { userGroupId: "a", name }),
      );
      const body = envelope(message).toString("base64");
      const answer = await http1(server.url, GET_PATH, { method: "POST", headers, body });
      expect(Buffer.from(answer.body.toString(), "base64").toString("latin1")).toContain("grpc-status: 8\r\n");
    });
  });
});
