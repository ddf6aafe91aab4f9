import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { StrayEntries } from "./stray-entries.ts";

beforeEach(() => void vi.useFakeTimers({ toFake: ["performance"] }));
afterEach(() => void vi.useRealTimers());

it("an entry is old once it was seen to find nothing for so long, each for itself", () => {
  const strays = new StrayEntries(1000);
  expect([strays.isOld("a"), strays.isOld("a")]).toEqual([false, false]);
  vi.advanceTimersByTime(999);
  expect([strays.isOld("a"), strays.isOld("b")]).toEqual([false, false]);
  vi.advanceTimersByTime(1);
  expect([strays.isOld("a"), strays.isOld("b")]).toEqual([true, false]);
  // What could not be removed is tried again as late.
  expect(strays.isOld("a")).toBe(false);
  vi.advanceTimersByTime(1000);
  expect([strays.isOld("a"), strays.isOld("b")]).toEqual([true, true]);
});

it("no more entries are remembered than a bound", () => {
  const strays = new StrayEntries(1000);
  for (let i = 0; i <= 1000; i++) strays.isOld(`${i}`);
  vi.advanceTimersByTime(1000);
  expect([strays.isOld("1"), strays.isOld("1000"), strays.isOld("0")]).toEqual([true, true, false]);
});
