import { createClient } from "@connectrpc/connect";
import { createConnectTransport, createGrpcTransport } from "@connectrpc/connect-node";
import { http1 } from "@user-group-service/testing/http";
import { forSuite } from "@user-group-service/testing/opened";
import { waitFor } from "@user-group-service/testing/wait";
import { describe, expect, it } from "vitest";
import { UserGroupService } from "../gen/usergroup/v1/user_group_service_pb.ts";
import { ADMIN_ENV, bearer, issueToken } from "./support/admin.ts";
import { suiteServer } from "./support/opened.ts";
import { healthOf } from "./support/operations.ts";
import { type CollectedSpan, openTraceCollector } from "./support/trace-collector.ts";

const COLLECTOR_SECRET = "of-the-collector-0123456789";
const GROUP = "a group that no trace names";
const GET = "usergroup.v1.UserGroupService/GetUserGroup";

const collector = forSuite(
  () => openTraceCollector(),
  (opened) => opened.close(),
);
const server = suiteServer(() => ({
  env: {
    ...ADMIN_ENV,
    OTEL_EXPORTER_OTLP_ENDPOINT: `${collector.url}/`,
    OTEL_EXPORTER_OTLP_HEADERS: `authorization=Bearer%20${COLLECTOR_SECRET}`,
    OTEL_RESOURCE_ATTRIBUTES: "deployment.environment.name=test",
  },
}));

let lastTrace = 0;

/**
 * Creates a trace of a caller. `come(count)` waits until the collector has at least `count` spans of the trace, and
 * returns all of them.
 */
function newTrace(flags = "01") {
  const traceId = (++lastTrace).toString(16).padStart(32, "0");
  const headers = { traceparent: `00-${traceId}-00000000000000ff-${flags}` };
  const spans = () => collector.spans().filter((span) => span.traceId === traceId);
  const come = (count: number): Promise<readonly CollectedSpan[]> =>
    waitFor(`${count} spans of a trace arrive`, () => (spans().length >= count ? spans() : undefined));
  return { traceId, headers, spans, come };
}

const CLIENTS = {
  grpc: () => createClient(UserGroupService, createGrpcTransport({ baseUrl: server.url })),
  connect: () => createClient(UserGroupService, createConnectTransport({ baseUrl: server.url, httpVersion: "1.1" })),
};

const SUCCESS = {
  grpc: { "rpc.system": "grpc", "rpc.grpc.status_code": 0 },
  connect: { "rpc.system": "connect_rpc" },
  rest: { "rpc.system": "rest" },
};

// The exporter waits a second for more spans before it sends them. The tests run concurrently, so that they share this
// wait.
describe.concurrent("traces", () => {
  it.each(["grpc", "connect", "rest"] as const)("a Get over %s continues the trace of its caller", async (way) => {
    const id = `${GROUP} over ${way}`;
    const { headers, come, traceId } = newTrace();
    const sent = { ...bearer(server.tokens.customer), ...headers, tracestate: "vendor=of-the-caller" };
    if (way === "rest") {
      const query = `?user_group_id=${encodeURIComponent(id)}`;
      expect((await http1(server.url, `/api/user${query}`, { headers: sent })).status).toBe(200);
    } else await CLIENTS[way]().getUserGroup({ userGroupId: id }, { headers: sent });
    const spans = await come(3);
    const call = spans.find(({ kind }) => kind === 2);
    expect(call).toMatchObject({
      name: GET,
      parentSpanId: "00000000000000ff",
      traceState: "vendor=of-the-caller",
      status: 0,
    });
    expect(call?.resource).toMatchObject({
      "service.name": "user-group-service",
      "deployment.environment.name": "test",
    });
    expect(call?.attributes).toEqual({
      ...{ ...SUCCESS[way], "rpc.service": "usergroup.v1.UserGroupService", "rpc.method": "GetUserGroup" },
      ...{ "ugs.environment": `${server.environment}/Customer`, "ugs.api_token_id": "static-customer" },
    });
    const children = spans.filter(({ kind }) => kind === 3);
    expect(children.map(({ name }) => name)).toEqual(["redis get", "redis create"]);
    for (const child of children) {
      expect(child.parentSpanId).toBe(call?.spanId);
      expect(child.start).toBeGreaterThanOrEqual(call?.start ?? 0n);
      expect(child.end).toBeLessThanOrEqual(call?.end ?? 0n);
    }
    const line = server.log().find((each) => each["trace_id"] === traceId);
    expect(line).toMatchObject({ msg: "call", span_id: call?.spanId });
  });

  it("the span of a failed call contains its error, even if the API token is rejected", async () => {
    const missing = newTrace();
    const reader = await issueToken(server, "read");
    const get = (token: string, headers: object) =>
      CLIENTS.grpc().getUserGroup({ userGroupId: "there is none" }, { headers: { ...bearer(token), ...headers } });
    await expect(get(reader.token, missing.headers)).rejects.toThrow("not_found");
    const unauthenticated = newTrace();
    const token = `ugk_${"a".repeat(32)}`;
    await expect(get(token, { ...unauthenticated.headers, tracestate: `vendor=${token}` })).rejects.toThrow(
      "unauthenticated",
    );
    const [, found] = await missing.come(2);
    expect(found?.attributes).toMatchObject({ "rpc.grpc.status_code": 5, "ugs.api_token_id": reader.id });
    const [refused] = await unauthenticated.come(1);
    expect(refused?.attributes).toMatchObject({ "rpc.grpc.status_code": 16, "error.type": "unauthenticated" });
    expect(refused?.attributes).not.toHaveProperty("ugs.api_token_id");
    expect(refused?.traceState).toBe("");
  });

  it("unsampled calls and health checks are not exported", async () => {
    const unsampled = newTrace("00");
    const headers = { ...bearer(server.tokens.customer) };
    await http1(server.url, "/api/user?user_group_id=first", { headers: { ...headers, ...unsampled.headers } });
    await healthOf(server).check({});
    const later = newTrace();
    await http1(server.url, "/api/user?user_group_id=second", { headers: { ...headers, ...later.headers } });
    await later.come(3);
    expect(unsampled.spans()).toEqual([]);
    expect(collector.spans().filter(({ name }) => name.startsWith("grpc."))).toEqual([]);
    const lines = server.log().filter((line) => line["protocol"] === "rest" && line["trace_id"] === undefined);
    expect(lines).toHaveLength(1);
  });
});

it("the collector receives no tokens and no arguments of calls, and the log does not contain the secret of the collector", async () => {
  const bytes = collector.bytes().toString("latin1");
  expect(bytes).toContain(GET);
  for (const text of [GROUP, ...Object.values(server.tokens), "ugt_", "ugk_", "there is none", ADMIN_ENV.ADMIN_TOKEN]) {
    expect(bytes).not.toContain(text);
  }
  for (const { path, headers } of collector.requests) {
    expect({ path, secret: headers.authorization }).toEqual({
      path: "POST /v1/traces",
      secret: `Bearer ${COLLECTOR_SECRET}`,
    });
  }
  expect(server.output()).not.toContain(COLLECTOR_SECRET);
});
