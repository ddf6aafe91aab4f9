import { Histogram, Registry } from "prom-client";
import { expect, it } from "vitest";
import { DURATION_BUCKETS } from "./history.ts";
import { ArrayHistogram, Metrics } from "./metrics.ts";

it("prom-client accepts an object with only `name` and `get` as a metric, as `register` in metrics.ts requires", async () => {
  const registry = new Registry();
  const metric = { name: "n", help: "some help", type: "gauge", values: [{ labels: { a: "b" }, value: 1 }] };
  registry.registerMetric({ name: "n", get: async () => metric } as never);
  expect(await registry.metrics()).toBe('# HELP n some help\n# TYPE n gauge\nn{a="b"} 1\n');
  expect(await registry.getMetricsAsJSON()).toEqual([metric]);
});

it("ArrayHistogram has the same text format as a prom-client histogram", async () => {
  const options = { name: "h", help: "some help", labelNames: ["a", "b"] };
  const [own, arrays] = [new Registry(), new Registry()];
  const histogram = new Histogram({ ...options, buckets: [...DURATION_BUCKETS], registers: [own] });
  const arrayHistogram = new ArrayHistogram(arrays, options);
  for (const [a, b] of [
    ["x", "y"],
    ["x", "z"],
    ["", 'qu"ote'],
  ] as const) {
    const observations = arrayHistogram.labels(a, b);
    for (const value of [0, 0.05, 0.1, 0.10001, 0.5, 0.75, 1, 2, 1000]) {
      histogram.labels(a, b).observe(value);
      observations.observe(value);
    }
  }
  expect((await arrays.metrics()).split("\n").sort()).toEqual((await own.metrics()).split("\n").sort());
  const aggregated = Registry.merge([arrays]);
  expect(await aggregated.metrics()).toBe(await arrays.metrics());
});

it("counts refusals of the first 100 environments by name, and refusals of other environments without a name", async () => {
  const metrics = new Metrics();
  metrics.overloaded("queue-full");
  for (let i = 0; i < 200; i++) metrics.overloaded("queue-full", `e${i % 150}`);
  const lines = (await metrics.collect())
    ?.split("\n")
    .filter((line) => /^ugs_overloaded_total.*"queue-full"/.test(line));
  expect(lines).toHaveLength(101);
  expect(lines).toContain('ugs_overloaded_total{cause="queue-full"} 51');
  expect(lines).toContain('ugs_overloaded_total{cause="queue-full",environment="e49"} 2');
  expect(lines).toContain('ugs_overloaded_total{cause="queue-full",environment="e99"} 1');
});
