import { Counter, Gauge, Histogram, Registry } from "prom-client";
import { expect, it } from "vitest";
import { figuresOf, isSameProcess } from "./figures.ts";
import { parseScrape } from "./scrape.ts";

/** The metrics that figures are drawn from, as prom-client writes them. */
function newMetrics() {
  const registers = [new Registry()];
  const call = ["grpc_type", "grpc_service", "grpc_method", "protocol"];
  const handled = new Counter({
    name: "grpc_server_handled_total",
    help: "h",
    labelNames: [...call, "grpc_code"],
    registers,
  });
  const buckets = [0.01, 0.1, 1];
  const seconds = new Histogram({
    name: "grpc_server_handling_seconds",
    help: "h",
    labelNames: call,
    buckets,
    registers,
  });
  const trips = new Histogram({
    name: "ugs_redis_duration_seconds",
    help: "h",
    labelNames: ["operation"],
    buckets,
    registers,
  });
  const tripErrors = new Counter({
    name: "ugs_redis_errors_total",
    help: "h",
    labelNames: ["operation"],
    registers,
  });
  const ready = new Gauge({ name: "ugs_redis_ready", help: "h", registers });
  const workers = new Gauge({ name: "ugs_workers", help: "h", registers });
  const begin = new Gauge({ name: "process_start_time_seconds", help: "h", registers });
  begin.set(1_700_000_000);
  const observe = (grpc_method: string, took: number, { grpc_code = "OK", protocol = "grpc" } = {}) => {
    const labels = { grpc_type: "unary", grpc_service: "s", grpc_method, protocol };
    handled.inc({ ...labels, grpc_code });
    seconds.observe(labels, took);
  };
  const read = async (atMs: number) => parseScrape((await registers[0]?.metrics()) ?? "", atMs);
  return { observe, trips, tripErrors, ready, workers, begin, read };
}

it("computes rates, errors by code and p99 from the difference of two scrapes", async () => {
  const { observe, trips, tripErrors, ready, workers, read } = newMetrics();
  ready.set(1);
  workers.set(2);
  // These calls come before the first scrape, so the figures leave them out.
  for (let i = 0; i < 500; i++) observe("GetUserGroup", 2, { grpc_code: "Internal" });
  const before = await read(1000);
  for (let i = 0; i < 98; i++) observe("GetUserGroup", 0.005);
  observe("GetUserGroup", 0.05, { protocol: "rest" });
  observe("GetUserGroup", 0.5, { grpc_code: "NotFound" });
  observe("ListUserGroups", 5);
  for (let i = 0; i < 20; i++) trips.observe({ operation: "get" }, 0.02);
  tripErrors.inc({ operation: "get" });
  const after = await read(11_000);
  expect(isSameProcess(before, after)).toBe(true);
  const { methods, errors, redis, all, ...rest } = figuresOf(before, after);
  expect(rest).toMatchObject({ seconds: 10, workers: 2, isRedisReady: true });
  expect(all).toMatchObject({ count: 101, perSecond: 10.1, failed: 1 });
  expect(methods).toEqual([
    // The 99th of 100 is the one that ends the bucket of 0.1 s.
    { name: "GetUserGroup", count: 100, perSecond: 10, failed: 1, p99: { seconds: 0.1, isMore: false } },
    { name: "ListUserGroups", count: 1, perSecond: 0.1, failed: 0, p99: { seconds: 1, isMore: true } },
  ]);
  expect(errors).toEqual([{ method: "GetUserGroup", code: "NotFound", count: 1 }]);
  expect(redis).toMatchObject([{ name: "get", count: 20, failed: 1 }]);
  // 19.8 of 20 within a bucket that goes from 0.01 to 0.1.
  expect(redis[0]?.p99?.seconds).toBeCloseTo(0.0991, 4);
});

it("shows nothing where nothing was done", async () => {
  const { observe, read } = newMetrics();
  observe("GetUserGroup", 1);
  const figures = figuresOf(await read(0), await read(5000));
  expect(figures).toMatchObject({ methods: [], errors: [], redis: [], all: { count: 0, p99: undefined } });
});

it("tells the scrape of another process", async () => {
  const { begin, observe, read } = newMetrics();
  observe("GetUserGroup", 1);
  const before = await read(0);
  const other = newMetrics();
  expect(isSameProcess(before, await other.read(1))).toBe(false);
  begin.set(1_700_000_001);
  expect(isSameProcess(before, await read(1))).toBe(false);
});

it("reads labels with all characters and infinite values, and ignores other lines", () => {
  const text = '# HELP a b\na{x="q\\"u\\\\o\\nte, }",y="2"} +Inf\nb 1e-3 1700000000\n\nno metric\n<html>\n# EOF';
  expect([...parseScrape(text, 0).series.values()]).toEqual([
    { name: "a", labels: { x: 'q"u\\o\nte, }', y: "2" }, value: Number.POSITIVE_INFINITY },
    { name: "b", labels: {}, value: 0.001 },
  ]);
});
