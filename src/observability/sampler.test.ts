import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { UserGroupService } from "../../gen/usergroup/v1/user_group_service_pb.ts";
import type { Environment } from "../domain/environment.ts";
import type { Sample } from "./history.ts";
import { Metrics } from "./metrics.ts";
import { EnvironmentCounts, startSampler } from "./sampler.ts";

const environment = (number: number): Environment => ({ name: `e${number}`, tag: undefined, number });

beforeEach(() => vi.useFakeTimers({ now: 1_700_000_001_000, toFake: ["setTimeout", "clearTimeout", "Date"] }));
afterEach(() => vi.useRealTimers());

it("takes a sample every ten seconds, with the increases of the counters since the previous sample", async () => {
  const metrics = new Metrics();
  const samples: Sample[] = [];
  let queueLength = 3;
  const stop = startSampler(metrics, { queueLength: () => queueLength, onSample: (sample) => samples.push(sample) });
  const { getUserGroup } = UserGroupService.method;
  const call = (protocol: string, reason?: string) => {
    const series = metrics.calls.begin(getUserGroup, protocol);
    const bucket = series.end(reason === undefined ? "OK" : "NotFound", 0.002, reason);
    metrics.environments.count(environment(7), bucket, reason);
  };
  for (const protocol of ["grpc", "rest"]) call(protocol);
  call("grpc", "USER_GROUP_NOT_FOUND");
  metrics.observeStore({ operation: "get", seconds: 0.0001, failed: true });
  metrics.waited.observe(0.1);
  metrics.overloaded("queue-full", "acme");
  metrics.overloaded("queue-full");
  metrics.limited.inc({ limit: "address" });
  metrics.calls.begin(getUserGroup, "grpc");
  expect(samples).toEqual([]);
  await vi.advanceTimersByTimeAsync(10_000);
  const own = { "2": 3, "error USER_GROUP_NOT_FOUND": 1 };
  const state = { workers: 1, "in-flight": 1, memory: expect.any(Number) };
  const work = { queued: 1, "redis get": 1, "0": 1, "redis-errors": 1, "refused queue-full": 2 };
  expect(samples).toEqual([
    {
      slot: 170_000_000,
      scopes: {
        "method GetUserGroup": own,
        "environment 7 e7/": own,
        environments: {},
        service: { ...state, ...work, "refused address-limit": 1, queue: 3 },
      },
    },
  ]);
  queueLength = 0;
  call("grpc");
  await vi.advanceTimersByTimeAsync(10_000);
  expect(samples[1]).toEqual({
    slot: 170_000_001,
    scopes: {
      "method GetUserGroup": { "2": 1 },
      "environment 7 e7/": { "2": 1 },
      environments: {},
      service: { ...state, queue: 0 },
    },
  });
  stop();
  await vi.advanceTimersByTimeAsync(60_000);
  expect(samples).toHaveLength(2);
});

it("counts at most 1,000 environments separately, and reports the 24 busiest environments and the sum of the others", () => {
  const counts = new EnvironmentCounts();
  for (let number = 1; number <= 1100; number++)
    for (let i = 0; i < (number % 100) + 1; i++) counts.count(environment(number), 1, i === 0 ? "X" : undefined);
  const scopes = counts.take();
  const names = Object.keys(scopes);
  expect(names).toHaveLength(25);
  expect(names).toContain("environment 99 e99/");
  expect(names).not.toContain("environment 1099 e1099/");
  const sum = (column: string) => Object.values(scopes).reduce((total, values) => total + (values[column] ?? 0), 0);
  expect([sum("1"), sum("error X")]).toEqual([11 * 5050, 1100]);
  expect(counts.take()).toEqual({ environments: {} });
});
