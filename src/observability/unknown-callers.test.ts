import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { UnknownCallers } from "./unknown-callers.ts";

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
});

it("logs the first failure of each code, and the number of further failures once per minute", () => {
  const warn = vi.fn();
  const callers = new UnknownCallers({ warn });
  expect(Array.from({ length: 1000 }, () => callers.count("unavailable")).filter(Boolean)).toEqual([true]);
  expect([callers.count("internal"), callers.count("internal")]).toEqual([true, false]);
  expect(warn).not.toHaveBeenCalled();
  vi.advanceTimersByTime(60_000);
  expect(warn.mock.calls.map(([fields]) => fields)).toEqual([
    { code: "unavailable", calls: 999 },
    { code: "internal", calls: 1 },
  ]);
  expect(callers.count("unavailable")).toBe(false);
  vi.advanceTimersByTime(60_000);
  expect(warn.mock.calls.slice(2).map(([fields]) => fields)).toEqual([{ code: "unavailable", calls: 1 }]);
});

it("logs the first failure after a minute without failures", () => {
  const warn = vi.fn();
  const callers = new UnknownCallers({ warn });
  expect(callers.count("unavailable")).toBe(true);
  vi.advanceTimersByTime(60_000);
  expect(vi.getTimerCount()).toBe(0);
  expect(callers.count("unavailable")).toBe(true);
  expect(warn).not.toHaveBeenCalled();
});
