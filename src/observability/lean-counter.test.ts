import { Counter, Registry } from "prom-client";
import { expect, it } from "vitest";
import { LeanCounter } from "./lean-counter.ts";

it("is exposed as prom-client's own counter is", async () => {
  const options = { name: "c", help: "some help", labelNames: ["a", "b"] };
  const [own, lean] = [new Registry(), new Registry()];
  const counter = new Counter({ ...options, registers: [own] });
  const leanCounter = new LeanCounter(options, lean);
  for (const [a, b, times] of [
    ["x", "y", 1],
    ["x", "z", 3],
    ["", 'qu"ote', 2],
  ] as const) {
    const count = leanCounter.labels(a, b);
    for (let i = 0; i < times; i++) {
      counter.labels(a, b).inc();
      count();
    }
  }
  expect((await lean.metrics()).split("\n").sort()).toEqual((await own.metrics()).split("\n").sort());
  const aggregated = Registry.merge([lean]);
  expect(await aggregated.metrics()).toBe(await lean.metrics());
});
