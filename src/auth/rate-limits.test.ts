import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { Count } from "../domain/store.ts";
import { RateLimits } from "./rate-limits.ts";

const LIMIT = { max: 3, windowSeconds: 10 };

/** Limits over a counter whose counts the test answers, in their order. */
function open(maxKeys?: number) {
  const counts: { key: string; amount: number; answer(count: Count): Promise<void> }[] = [];
  const forgotten: string[] = [];
  const counter = {
    add: (key: string, amount: number) =>
      new Promise<Count>((resolve) => {
        const answer = async (count: Count) => {
          resolve(count);
          await Promise.resolve();
        };
        counts.push({ key, amount, answer });
      }),
    forget: (key: string) => void forgotten.push(key),
  };
  const limits = new RateLimits({ limit: LIMIT, counter, ...(maxKeys !== undefined && { maxKeys }) });
  return { limits, counts, forgotten };
}

/** Takes so often; which times were let through. */
const takes = (limits: RateLimits, key: string, times: number) =>
  Array.from({ length: times }, () => limits.take(key) === undefined);

describe("rate limits", () => {
  beforeEach(() => void vi.useFakeTimers({ toFake: ["performance"] }));
  afterEach(() => void vi.useRealTimers());

  it("let through as many as they allow before anything is known of the count, and not one more", () => {
    const { limits, counts } = open();
    expect(takes(limits, "a", 5)).toEqual([true, true, true, false, false]);
    expect(takes(limits, "b", 1)).toEqual([true]);
    // The first is counted at once, and the others when that is answered.
    expect(counts.map(({ key, amount }) => [key, amount])).toEqual([
      ["a", 1],
      ["b", 1],
    ]);
  });

  it("count what came meanwhile by one command", async () => {
    const { limits, counts } = open();
    takes(limits, "a", 3);
    await counts[0]?.answer({ total: 1, resetMs: 10_000 });
    expect(counts.slice(1).map(({ amount }) => amount)).toEqual([2]);
    await counts[1]?.answer({ total: 3, resetMs: 10_000 });
    expect(counts).toHaveLength(2);
  });

  it("refuse what other workers have used up, until the window of all ends", async () => {
    const { limits, counts } = open();
    expect(limits.take("a")).toBeUndefined();
    await counts[0]?.answer({ total: 7, resetMs: 4000 });
    expect(limits.take("a")).toEqual({ limit: LIMIT, retryAfterMs: 4000 });
    vi.advanceTimersByTime(3999);
    expect(limits.take("a")).toEqual({ limit: LIMIT, retryAfterMs: 1 });
    // What is refused is not counted.
    expect(counts).toHaveLength(1);
    vi.advanceTimersByTime(1);
    expect(takes(limits, "a", 4)).toEqual([true, true, true, false]);
    expect(counts).toHaveLength(2);
  });

  it("hold while no count is answered", () => {
    const { limits, counts } = open();
    expect(takes(limits, "a", 4)).toEqual([true, true, true, false]);
    vi.advanceTimersByTime(9_999);
    expect(limits.take("a")).toBeDefined();
    expect(counts).toHaveLength(1);
  });

  it("keep no more keys than a bound, and forget first the one whose window began first", async () => {
    const { limits, counts, forgotten } = open(2);
    takes(limits, "a", 3);
    limits.take("b");
    limits.take("a");
    limits.take("c");
    expect(forgotten).toEqual(["a"]);
    // What all workers have counted is known again with the next answer.
    expect(limits.take("a")).toBeUndefined();
    expect(forgotten).toEqual(["a", "b"]);
    await counts.at(-1)?.answer({ total: 4, resetMs: 10_000 });
    expect(limits.take("a")).toBeDefined();
    // What was counted for a key that had to make room meanwhile is not kept either.
    await counts.find(({ key }) => key === "b")?.answer({ total: 1, resetMs: 10_000 });
    expect(forgotten).toEqual(["a", "b", "b"]);
  });

  it("keep a key whose window begins anew behind the others", () => {
    const { limits, forgotten } = open(2);
    limits.take("a");
    vi.advanceTimersByTime(5000);
    limits.take("b");
    vi.advanceTimersByTime(5000);
    limits.take("a");
    limits.take("c");
    expect(forgotten).toEqual(["b"]);
  });
});
