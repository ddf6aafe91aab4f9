import { setImmediate } from "node:timers/promises";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { type CollectorAnswer, openTraceCollector } from "../../../test/support/trace-collector.ts";
import { type CallStart, Traces } from "./traces.ts";

const PARENT = { traceId: "0af7651916cd43dd8448eb211c80319c", spanId: "b7ad6b7169203331" };
const SAMPLED = `00-${PARENT.traceId}-${PARENT.spanId}-01`;
const UNSAMPLED = `00-${PARENT.traceId}-${PARENT.spanId}-00`;

const START: CallStart = {
  service: "usergroup.v1.UserGroupService",
  method: "GetUserGroup",
  protocol: "grpc",
  apiTokenId: "an-id",
  environment: "acme/Customer",
  traceparent: null,
  tracestate: null,
};

const NO_TLS = { ca: undefined, cert: undefined, key: undefined };

/** Creates `Traces` for a new collector, and records lost spans and faults. @param env variables of OpenTelemetry */
async function newTraces(
  env: { readonly [name: string]: string } = {},
  answerOf?: (request: number) => CollectorAnswer,
) {
  const collector = await openTraceCollector(answerOf);
  onTestFinished(() => collector.close());
  const variables = {
    OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
    OTEL_EXPORTER_OTLP_HEADERS: "authorization=Bearer%20of-the-collector",
    OTEL_SERVICE_NAME: "groups",
    ...env,
  };
  for (const [name, text] of Object.entries(variables)) vi.stubEnv(name, text);
  onTestFinished(() => void vi.unstubAllEnvs());
  const lost: { [reason: string]: number } = {};
  const errors: string[] = [];
  const faults: string[] = [];
  const traces = new Traces({
    version: "1.2.3",
    tls: NO_TLS,
    onLost: (reason, spans, error) => {
      lost[reason] = (lost[reason] ?? 0) + spans;
      if (error) errors.push(error.message);
    },
    onFault: (message) => faults.push(message),
  });
  return { collector, traces, lost, errors, faults };
}

describe("the span of a call", () => {
  it("continues the trace of the caller, and is the parent of the spans of round trips", async () => {
    const { collector, traces, lost } = await newTraces();
    const before = BigInt(Date.now()) * 1_000_000n;
    const call = traces.begin({ ...START, traceparent: SAMPLED, tracestate: "vendor=1" });
    call?.roundTrip({ operation: "get", seconds: 0.001, failed: false });
    call?.roundTrip({ operation: "create", seconds: 0.002, failed: true });
    call?.end(undefined);
    await traces.close();
    const [get, create, server] = collector.spans();
    expect(collector.spans()).toHaveLength(3);
    expect(server).toMatchObject({
      name: "usergroup.v1.UserGroupService/GetUserGroup",
      ...{ traceId: PARENT.traceId, parentSpanId: PARENT.spanId, traceState: "vendor=1", kind: 2, status: 0 },
      resource: { "service.name": "groups", "service.version": "1.2.3", "telemetry.sdk.name": "opentelemetry" },
    });
    expect(server?.attributes).toEqual({
      ...{ "rpc.system": "grpc", "rpc.service": "usergroup.v1.UserGroupService", "rpc.method": "GetUserGroup" },
      ...{ "rpc.grpc.status_code": 0, "ugs.environment": "acme/Customer", "ugs.api_token_id": "an-id" },
    });
    expect({ traceId: call?.traceId, spanId: call?.spanId }).toEqual({
      traceId: server?.traceId,
      spanId: server?.spanId,
    });
    for (const child of [get, create]) {
      expect(child).toMatchObject({ traceId: PARENT.traceId, parentSpanId: server?.spanId, kind: 3 });
    }
    expect(get).toMatchObject({ name: "redis get", status: 0 });
    expect(get?.attributes).toEqual({ "db.system.name": "redis", "db.operation.name": "get" });
    expect(create).toMatchObject({ name: "redis create", status: 2 });
    expect(Number((create?.end ?? 0n) - (create?.start ?? 0n)) / 1e6).toBeCloseTo(2, 2);
    expect(server?.start).toBeGreaterThanOrEqual(before - 1_000_000n);
    expect(server?.end).toBeGreaterThanOrEqual(create?.end ?? 0n);
    expect(collector.requests).toMatchObject([
      { path: "POST /v1/traces", headers: { authorization: "Bearer of-the-collector" } },
    ]);
    expect(lost).toEqual({});
  });

  it.each([
    ["grpc", { "rpc.system": "grpc", "rpc.grpc.status_code": 5 }],
    ["grpc-web", { "rpc.system": "grpc", "rpc.grpc.status_code": 5 }],
    ["connect", { "rpc.system": "connect_rpc", "rpc.connect_rpc.error_code": "not_found" }],
    ["rest", { "rpc.system": "rest", "rpc.connect_rpc.error_code": "not_found" }],
  ])("has the attributes of a failed call over %s", async (protocol, attributes) => {
    const { collector, traces } = await newTraces();
    traces.begin({ ...START, protocol })?.end({ code: 5, codeName: "not_found" });
    await traces.close();
    // Only a server error sets the status of the span.
    expect(collector.spans()).toMatchObject([{ attributes: { ...attributes, "error.type": "not_found" }, status: 0 }]);
  });

  it.each([
    [4, "deadline_exceeded"],
    [13, "internal"],
    [14, "unavailable"],
  ])("has the status error if the service is at fault: code %i", async (code, codeName) => {
    const { collector, traces } = await newTraces();
    traces.begin(START)?.end({ code, codeName });
    await traces.close();
    expect(collector.spans()).toMatchObject([{ attributes: { "rpc.grpc.status_code": code }, status: 2 }]);
  });

  it("has at most 64 child spans, and an attribute with the number of all round trips", async () => {
    const { collector, traces } = await newTraces();
    const call = traces.begin(START);
    for (let i = 0; i < 500; i++) call?.roundTrip({ operation: "import", seconds: 0, failed: false });
    call?.end(undefined);
    await traces.close();
    expect(collector.spans()).toHaveLength(65);
    expect(collector.spans().at(-1)?.attributes["ugs.redis.round_trips"]).toBe(500);
  });
});

describe("traceparent", () => {
  it.each([
    ...["", "00", "garbage", `00-${"0".repeat(32)}-${PARENT.spanId}-01`, `00-${PARENT.traceId}-${"0".repeat(16)}-01`],
    ...[
      `ff-${PARENT.traceId}-${PARENT.spanId}-01`,
      `${SAMPLED}-extra`,
      SAMPLED.toUpperCase(),
      `${SAMPLED}, ${SAMPLED}`,
    ],
  ])("a malformed traceparent is ignored: %j", async (traceparent) => {
    const { collector, traces } = await newTraces();
    traces.begin({ ...START, traceparent, tracestate: "vendor=1" })?.end(undefined);
    await traces.close();
    expect(collector.spans()).toMatchObject([{ parentSpanId: "", traceState: "" }]);
    expect(collector.spans()[0]?.traceId).not.toBe(PARENT.traceId);
  });

  it.each([
    ["parentbased_always_on", [true, true, false]],
    ["parentbased_always_off", [false, true, false]],
    ["parentbased_traceidratio", [false, true, false]],
    ["always_on", [true, true, true]],
    ["always_off", [false, false, false]],
    ["traceidratio", [false, false, false]],
  ] as const)("the traceparent and the sampler %s determine whether a call is sampled", async (sampler, expected) => {
    const { traces } = await newTraces({ OTEL_TRACES_SAMPLER: sampler, OTEL_TRACES_SAMPLER_ARG: "0" });
    const isSampled = (traceparent: string | null) => traces.begin({ ...START, traceparent }) !== undefined;
    expect([null, SAMPLED, UNSAMPLED].map(isSampled)).toEqual(expected);
    await traces.close();
  });

  it("a traceparent does not bypass the rate limit of spans, which is lower for unauthenticated clients", async () => {
    const { traces, lost } = await newTraces();
    const sampled = (start: CallStart, calls: number) =>
      Array.from({ length: calls }, () => traces.begin({ ...start, traceparent: SAMPLED })).filter(Boolean).length;
    const started = performance.now();
    const unauthenticated = sampled({ ...START, apiTokenId: undefined, environment: undefined }, 5000);
    const callers = sampled(START, 5000);
    const seconds = (performance.now() - started) / 1000;
    expect(unauthenticated).toBeGreaterThanOrEqual(10);
    expect(unauthenticated).toBeLessThanOrEqual(10 + 10 * seconds + 1);
    expect(callers).toBeGreaterThanOrEqual(1000);
    expect(callers).toBeLessThanOrEqual(1000 + 1000 * seconds + 1);
    expect(lost).toEqual({ rate: 10_000 - unauthenticated - callers });
    await traces.close();
  });
});

describe("OpenTelemetry variables", () => {
  it("the variables of OpenTelemetry set the attributes of the service", async () => {
    const attributes = "deployment.environment.name=%C3%A9,k8s.pod.name=a-1";
    const { collector, traces, faults } = await newTraces({ OTEL_RESOURCE_ATTRIBUTES: attributes });
    traces.begin(START)?.end(undefined);
    await traces.close();
    expect(collector.spans()[0]?.resource).toMatchObject({
      ...{ "service.name": "groups", "deployment.environment.name": "é", "k8s.pod.name": "a-1" },
    });
    expect(faults).toEqual([]);
  });

  it.each([
    ["OTEL_TRACES_SAMPLER", ["always", "jaeger_remote", "ALWAYS_ON", "toString"]],
    ["OTEL_TRACES_SAMPLER_ARG", ["1.1", "-0.1", "5%", ".", "half"]],
    ["OTEL_RESOURCE_ATTRIBUTES", ["a", "=a", "a=b,c", "a=b=c", "a=%", `a=${"b".repeat(256)}`]],
  ] as const)("variables are reported as faults if OpenTelemetry cannot use their values: %s", async (name, values) => {
    for (const value of values) {
      const { traces, faults } = await newTraces({ OTEL_TRACES_SAMPLER: "traceidratio", [name]: value });
      await traces.close();
      expect([value, faults[0]]).toEqual([value, expect.stringContaining(name)]);
    }
  });
});

it("adds a round trip to the trace of the running call, and adds none after the call has ended", async () => {
  const { collector, traces } = await newTraces();
  const calls = ["a", "b"].map(async (operation) => {
    const call = traces.begin(START);
    await call?.run(async () => {
      await setImmediate();
      traces.current?.roundTrip({ operation, seconds: 0, failed: false });
    });
    call?.end(undefined);
    call?.roundTrip({ operation: "late", seconds: 0, failed: false });
    return [call?.spanId, `redis ${operation}`];
  });
  const expected = await Promise.all(calls);
  expect(traces.current).toBeUndefined();
  await traces.close();
  const children = collector.spans().filter(({ kind }) => kind === 3);
  expect(children.map(({ parentSpanId, name }) => [parentSpanId, name])).toEqual(expected);
});

describe("collectors", () => {
  it("a collector that returns an error loses the spans of the request, and `onLost` receives their number", async () => {
    const { traces, lost, errors } = await newTraces({}, () => ({ status: 401 }));
    for (let i = 0; i < 3; i++) traces.begin(START)?.end(undefined);
    await traces.close();
    expect(lost).toEqual({ export: 3 });
    expect(errors).toEqual(["Unauthorized"]);
  });

  it("a collector receives no spans that end after `close`", async () => {
    const { collector, traces, lost } = await newTraces();
    const call = traces.begin(START);
    await traces.close();
    call?.end(undefined);
    expect(collector.requests).toEqual([]);
    expect(lost).toEqual({ queue: 1 });
  });
});
