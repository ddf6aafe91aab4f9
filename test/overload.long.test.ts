import { type ClientHttp2Session, connect as connectHttp2 } from "node:http2";
import { create, toBinary } from "@bufbuild/protobuf";
import { answerOn, envelope, type HttpAnswer, http1, http2, pinged } from "@user-group-service/testing/http";
import { RUNTIMES } from "@user-group-service/testing/runtime";
import { waitFor } from "@user-group-service/testing/wait";
import { afterAll, beforeAll, expect, inject, it } from "vitest";
import { GetUserGroupRequestSchema } from "../gen/usergroup/v1/user_group_service_pb.ts";
import { describeWithRedis, suiteProxy, suiteServer } from "./support/opened.ts";
import { expectConnectError, expectRestError } from "./support/rest-shape.ts";

const redisUrl = inject("redisUrl");
const GET_PATH = "/usergroup.v1.UserGroupService/GetUserGroup";

/** The maximum number of calls in flight of a worker. */
const MAX_CALLS = 4096;
/** The maximum number of streams of a connection. */
const STREAMS = 250;

describeWithRedis.each(RUNTIMES)("with more calls in flight than the limit on %s", (runtime) => {
  const proxy = suiteProxy({ port: Number(redisUrl && new URL(redisUrl).port) });
  const server = suiteServer(() => ({ runtime, redisUrl: proxy.url, env: { REDIS_TIMEOUT: "60s" } }));
  const sessions: ClientHttp2Session[] = [];

  beforeAll(async () => {
    await http1(server.url, "/api/user?user_group_id=a", { headers: { authorization: bearer() } });
  });
  afterAll(() => {
    for (const session of sessions) session.destroy();
  });

  const bearer = () => `Token ${server.tokens.customer}`;

  /** Starts calls, and collects the finished ones. */
  function begin(count: number, body: string | undefined): HttpAnswer[] {
    const answered: HttpAnswer[] = [];
    for (let i = 0; i < count; i++) {
      if (i % STREAMS === 0) sessions.push(connectHttp2(server.url).on("error", () => {}));
      const session = sessions.at(-1) as ClientHttp2Session;
      const headers = { ":method": "POST", ":path": GET_PATH, "content-type": "application/json" };
      const stream = session.request({ ...headers, authorization: bearer() }, { endStream: false });
      answerOn(stream, "end").then(
        (answer) => answered.push(answer),
        () => {},
      );
      if (body !== undefined) stream.end(body);
    }
    return answered;
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

  it("rejects excess calls at once in every protocol, finishes accepted ones, and recovers", async () => {
    proxy.allow(0);
    const answered = begin(MAX_CALLS + 176, '{"userGroupId":"a"}');
    await waitFor("the excess calls are rejected", () => answered.length === 176);
    for (const { status, headers, body } of answered) {
      expect([status, headers["retry-after"]]).toEqual([429, "1"]);
      expect(body.includes("OVERLOADED")).toBe(true);
    }

    const authorization = bearer();
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
    expect((await http1(server.url, "/healthz")).status).toBe(200);
    expect((await http1(server.url, "/metrics")).status).toBe(200);
    proxy.allow(Number.POSITIVE_INFINITY);
    await waitFor("the accepted calls are finished", () => answered.length === MAX_CALLS + 176);
    expect(answered.slice(176).map(({ status }) => status)).toEqual(Array(MAX_CALLS).fill(200));
    // While Redis is blocked, the service is not ready: a check waits for two seconds at most.
    await waitFor("it is ready", async () => (await http1(server.url, "/readyz")).status === 200);
    const checked = await http1(server.url, "/grpc.health.v1.Health/Check", post("application/json", "{}"));
    expect(checked.json()).toEqual({ status: "SERVING" });
    const again = begin(MAX_CALLS, '{"userGroupId":"a"}');
    await waitFor("as many calls succeed again", () => again.length === MAX_CALLS);
    expect(new Set(again.map(({ status }) => status))).toEqual(new Set([200]));
  });

  it("reserves no capacity for bodies that do not arrive", async () => {
    const before = sessions.length;
    begin(MAX_CALLS + 1, undefined);
    const waiting = sessions.splice(before);
    await Promise.all(waiting.map(pinged));
    const { status } = await http1(server.url, "/api/user?user_group_id=a", { headers: { authorization: bearer() } });
    expect(status).toBe(200);
    for (const session of waiting) session.destroy();
  });
});
