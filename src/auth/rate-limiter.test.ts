import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { Count } from "../domain/store.ts";
import { RateLimiter } from "./rate-limiter.ts";

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
  const limiter = new RateLimiter({ limit: LIMIT, counter, ...(maxKeys !== undefined && { maxKeys }) });
  return { limiter, counts, forgotten };
}

/** Takes so often; which times were let through. */
const takes = (limiter: RateLimiter, key: string, times: number) =>
  Array.from({ length: times }, () => limiter.take(key) === undefined);

describe("a rate limiter", () => {
  beforeEach(() => void vi.useFakeTimers({ toFake: ["performance"] }));
  afterEach(() => void vi.useRealTimers());

  it("let through as many as they allow before anything is known of the count, and not one more", () => {
    const { limiter, counts } = open();
    expect(takes(limiter, "a", 5)).toEqual([true, true, true, false, false]);
    expect(takes(limiter, "b", 1)).toEqual([true]);
    // The first is counted at once, and the others when that is answered.
    expect(counts.map(({ key, amount }) => [key, amount])).toEqual([
      ["a", 1],
      ["b", 1],
    ]);
  });

  it("count what came meanwhile by one command", async () => {
    const { limiter, counts } = open();
    takes(limiter, "a", 3);
    await counts[0]?.answer({ total: 1, resetMs: 10_000 });
    expect(counts.slice(1).map(({ amount }) => amount)).toEqual([2]);
    await counts[1]?.answer({ total: 3, resetMs: 10_000 });
    expect(counts).toHaveLength(2);
  });

  it("refuse what other workers have used up, until the window of all ends", async () => {
    const { limiter, counts } = open();
    expect(limiter.take("a")).toBeUndefined();
    await counts[0]?.answer({ total: 7, resetMs: 4000 });
    expect(limiter.take("a")).toEqual({ limit: LIMIT, retryAfterMs: 4000 });
    vi.advanceTimersByTime(3999);
    expect(limiter.take("a")).toEqual({ limit: LIMIT, retryAfterMs: 1 });
    // What is refused is not counted.
    expect(counts).toHaveLength(1);
    vi.advanceTimersByTime(1);
    expect(takes(limiter, "a", 4)).toEqual([true, true, true, false]);
    expect(counts).toHaveLength(2);
  });

  it("hold while no count is answered", () => {
    const { limiter, counts } = open();
    expect(takes(limiter, "a", 4)).toEqual([true, true, true, false]);
    vi.advanceTimersByTime(9_999);
    expect(limiter.take("a")).toBeDefined();
    expect(counts).toHaveLength(1);
  });

  it("keep no more keys than a bound, and forget first the one whose window began first", async () => {
    const { limiter, counts, forgotten } = open(2);
    takes(limiter, "a", 3);
    limiter.take("b");
    limiter.take("a");
    limiter.take("c");
    expect(forgotten).toEqual(["a"]);
    // What all workers have counted is known again with the next answer.
    expect(limiter.take("a")).toBeUndefined();
    expect(forgotten).toEqual(["a", "b"]);
    await counts.at(-1)?.answer({ total: 4, resetMs: 10_000 });
    expect(limiter.take("a")).toBeDefined();
    // What was counted for a key that had to make room meanwhile is not kept either.
    await counts.find(({ key }) => key === "b")?.answer({ total: 1, resetMs: 10_000 });
    expect(forgotten).toEqual(["a", "b", "b"]);
  });

  it("keep a key whose window begins anew behind the others", () => {
    const { limiter, forgotten } = open(2);
    limiter.take("a");
    vi.advanceTimersByTime(5000);
    limiter.take("b");
    vi.advanceTimersByTime(5000);
    limiter.take("a");
    limiter.take("c");
    expect(forgotten).toEqual(["b"]);
  });
});
