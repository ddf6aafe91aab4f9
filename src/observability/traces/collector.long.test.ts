import { BasicTracerProvider } from "@opentelemetry/sdk-trace-base";
import { freePort, waitFor } from "@user-group-service/testing/wait";
import { expect, it, onTestFinished, vi } from "vitest";
import { openTraceCollector, openTricklingCollector } from "../../../test/support/trace-collector.ts";
import { Collector } from "./collector.ts";

const NOT_SENT = "not sent before the end of the process";

const NO_TLS = { ca: undefined, cert: undefined, key: undefined };

/** Creates a `Collector` that sends spans to a URL, and counts lost spans. */
function newSender(url: string) {
  const lost: { [reason: string]: number } = {};
  const errors: string[] = [];
  vi.stubEnv("OTEL_EXPORTER_OTLP_ENDPOINT", url);
  onTestFinished(() => void vi.unstubAllEnvs());
  const collector = new Collector(NO_TLS, (reason, spans, error) => {
    lost[reason] = (lost[reason] ?? 0) + spans;
    if (error) errors.push(error.message);
  });
  const tracer = new BasicTracerProvider({ spanProcessors: [collector] }).getTracer("test");
  const endSpans = (count: number) => {
    for (let i = 0; i < count; i++) tracer.startSpan("span").end();
  };
  return { endSpans, close: () => collector.shutdown(), lost, errors };
}

async function newCollector(...args: Parameters<typeof openTraceCollector>) {
  const collector = await openTraceCollector(...args);
  onTestFinished(() => collector.close());
  return collector;
}

async function newTricklingCollector(head: string) {
  const collector = await openTricklingCollector(head);
  onTestFinished(() => collector.close());
  return collector;
}

it("sends spans after a second, and the remaining spans at the shutdown", async () => {
  const collector = await newCollector();
  const { endSpans, close, lost } = newSender(collector.url);
  endSpans(2);
  await waitFor("the spans come", () => collector.spans().length === 2);
  endSpans(3);
  await close();
  expect(collector.spans()).toHaveLength(5);
  expect(lost).toEqual({});
});

it("waits at the shutdown for the response to a request in flight", async () => {
  let answer = (_: { status: number }) => {};
  const collector = await newCollector(() => new Promise((resolve) => (answer = resolve)));
  const { endSpans, close, lost } = newSender(collector.url);
  endSpans(1);
  await waitFor("the request comes", () => collector.bytes().length > 0);
  const closed = close();
  answer({ status: 200 });
  await closed;
  expect(lost).toEqual({});
});

it.each([429, 503])("sends the spans again after status %i with a Retry-After of a second", async (status) => {
  const collector = await newCollector((request) =>
    request === 1 ? { status, headers: { "retry-after": "1" } } : { status: 200 },
  );
  const { endSpans, close, lost } = newSender(collector.url);
  endSpans(1);
  await waitFor("the span comes", () => collector.spans().length === 1);
  expect(collector.requests.map((request) => request.status)).toEqual([status, 200]);
  await close();
  expect(lost).toEqual({});
});

it.each([429, 503])("drops spans if the collector returns %i with a Retry-After of an hour", async (status) => {
  const collector = await newCollector(() => ({ status, headers: { "retry-after": "3600" } }));
  const { endSpans, close, lost, errors } = newSender(collector.url);
  endSpans(4);
  await waitFor("the spans are dropped", () => lost["export"] === 4);
  expect(collector.requests).toHaveLength(1);
  expect(errors).toEqual([expect.stringMatching(/retryable/)]);
  await close();
});

it("keeps at most 2,048 spans if the collector does not answer, and still shuts down", async () => {
  const collector = await newCollector(() => new Promise(() => {}));
  const { endSpans, close, lost, errors } = newSender(collector.url);
  endSpans(10_000);
  expect(lost).toEqual({ queue: 10_000 - 2048 });
  await close();
  expect(lost).toEqual({ queue: 10_000 - 2048, export: 2048 });
  expect(errors).toEqual([NOT_SENT]);
});

it("reports spans lost while the collector is down, and sends spans when the collector is back", async () => {
  const port = await freePort();
  const { endSpans, close, lost, errors } = newSender(`http://127.0.0.1:${port}`);
  endSpans(10);
  await waitFor("the spans are dropped", () => lost["export"] === 10);
  expect(errors).toEqual([expect.stringContaining("ECONNREFUSED")]);
  const collector = await newCollector(undefined, port);
  endSpans(1);
  await waitFor("the span comes", () => collector.spans().length === 1);
  await close();
  expect(lost).toEqual({ export: 10 });
});

it.each([
  ["headers", "HTTP/1.1 200 OK\r\nx-trickles: "],
  ["body", "HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n"],
  ["headers of a refusal", "HTTP/1.1 503 Service Unavailable\r\nx-trickles: "],
])("drops spans if the %s arrive byte by byte, and sends later spans to a new collector", async (_, head) => {
  const trickling = await newTricklingCollector(head);
  const { endSpans, close, lost, errors } = newSender(trickling.url);
  // `BatchSpanProcessor` sends at most 512 spans in a request, so 1000 spans need two requests.
  endSpans(1000);
  await waitFor("all spans are dropped", () => lost["export"] === 1000);
  expect(errors).toEqual(Array(2).fill(expect.stringMatching(/longer than 5 s/)));
  await waitFor("the connections to the collector are closed", () => trickling.connections() === 0);
  await trickling.close();
  const collector = await newCollector(undefined, trickling.port);
  endSpans(1);
  await waitFor("the span comes", () => collector.spans().length === 1);
  await close();
  expect(lost).toEqual({ export: 1000 });
});

it("shuts down and closes its connection even if a response arrives byte by byte", async () => {
  const trickling = await newTricklingCollector("HTTP/1.1 200 OK\r\nx-trickles: ");
  const { endSpans, close, lost, errors } = newSender(trickling.url);
  endSpans(10);
  await close();
  expect(lost).toEqual({ export: 10 });
  expect(errors).toEqual([NOT_SENT]);
  await waitFor("the connection to the collector is closed", () => trickling.connections() === 0);
});

it("shuts down even if no collector listens, and reports the lost spans", async () => {
  const { endSpans, close, lost, errors } = newSender(`http://127.0.0.1:${await freePort()}`);
  endSpans(10);
  await close();
  expect(lost).toEqual({ export: 10 });
  expect(errors).toEqual([NOT_SENT]);
});
