import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { Count } from "../domain/store.ts";
import { MAX_KEYS, RateLimiter } from "./rate-limiter.ts";

const LIMIT = { max: 3, windowSeconds: 10 };

/**
 * Creates a rate limiter with a fake counter. `counts` contains the requests to the counter, and the test answers these
 * requests.
 */
function open() {
  const counts: { key: string; amount: number; answer(count: Count): Promise<void>; fail(): Promise<void> }[] = [];
  const counter = {
    add: (key: string, amount: number) =>
      new Promise<Count>((resolve, reject) => {
        const answer = async (count: Count) => {
          resolve(count);
          await Promise.resolve();
        };
        const fail = async () => {
          reject(new Error("away"));
          await Promise.resolve();
        };
        counts.push({ key, amount, answer, fail });
      }),
  };
  const limiter = new RateLimiter({ limit: LIMIT, counter });
  return { limiter, counts };
}

const takes = (limiter: RateLimiter, key: string, times: number) =>
  Array.from({ length: times }, () => limiter.take(key) === undefined);

/** Takes one use of each of `count` keys that the tests do not use. */
function takeOthers(limiter: RateLimiter, count: number) {
  for (let i = 0; i < count; i++) limiter.take(`other ${i}`);
}

describe("RateLimiter", () => {
  beforeEach(() => void vi.useFakeTimers({ toFake: ["performance"] }));
  afterEach(() => void vi.useRealTimers());

  it("allows exactly `max` uses before the counter has answered", () => {
    const { limiter, counts } = open();
    expect(takes(limiter, "a", 5)).toEqual([true, true, true, false, false]);
    expect(takes(limiter, "b", 1)).toEqual([true]);
    // The limiter sends the first use of a key immediately. It sends the later uses after the first response.
    expect(counts.map(({ key, amount }) => [key, amount])).toEqual([
      ["a", 1],
      ["b", 1],
    ]);
  });

  it("sends all uses that arrive during a round trip together in the next command", async () => {
    const { limiter, counts } = open();
    takes(limiter, "a", 3);
    await counts[0]?.answer({ total: 1, resetMs: 10_000 });
    expect(counts.slice(1).map(({ amount }) => amount)).toEqual([2]);
    await counts[1]?.answer({ total: 3, resetMs: 10_000 });
    expect(counts).toHaveLength(2);
  });

  it("refuses uses until the window ends if all workers together have reached the limit", async () => {
    const { limiter, counts } = open();
    expect(limiter.take("a")).toBeUndefined();
    await counts[0]?.answer({ total: 7, resetMs: 4000 });
    expect(limiter.take("a")).toEqual({ limit: LIMIT, retryAfterMs: 4000 });
    vi.advanceTimersByTime(3999);
    expect(limiter.take("a")).toEqual({ limit: LIMIT, retryAfterMs: 1 });
    expect(counts).toHaveLength(1);
    vi.advanceTimersByTime(1);
    expect(takes(limiter, "a", 4)).toEqual([true, true, true, false]);
    expect(counts).toHaveLength(2);
  });

  it("limits uses by the count in memory while the counter does not answer", () => {
    const { limiter, counts } = open();
    expect(takes(limiter, "a", 4)).toEqual([true, true, true, false]);
    vi.advanceTimersByTime(9_999);
    expect(limiter.take("a")).toBeDefined();
    expect(counts).toHaveLength(1);
  });

  it("RateLimiter limits uses by the last total of the counter plus the later uses while the counter fails", async () => {
    const { limiter, counts } = open();
    limiter.take("a");
    await counts[0]?.answer({ total: 1, resetMs: 4000 });
    expect(takes(limiter, "a", 1)).toEqual([true]);
    await counts[1]?.fail();
    expect(takes(limiter, "a", 2)).toEqual([true, false]);
    await counts[2]?.fail();
    expect(limiter.take("a")).toEqual({ limit: LIMIT, retryAfterMs: 4000 });
    vi.advanceTimersByTime(4000);
    expect(takes(limiter, "a", 2)).toEqual([true, true]);
    await counts[3]?.fail();
    // After the outage, the limiter replaces the count in its memory with the total of the counter.
    await counts[4]?.answer({ total: 2, resetMs: 9000 });
    expect(takes(limiter, "a", 2)).toEqual([true, false]);
  });

  it("limits the uses in each window even without a shared counter", () => {
    const limiter = new RateLimiter({ limit: LIMIT, counter: undefined });
    expect(takes(limiter, "a", 4)).toEqual([true, true, true, false]);
    expect(takes(limiter, "b", 1)).toEqual([true]);
    vi.advanceTimersByTime(9_999);
    expect(limiter.take("a")).toEqual({ limit: LIMIT, retryAfterMs: 1 });
    vi.advanceTimersByTime(1);
    expect(takes(limiter, "a", 4)).toEqual([true, true, true, false]);
  });

  it("evicts the key with the oldest window if the number of keys exceeds the maximum", async () => {
    const { limiter, counts } = open();
    takes(limiter, "a", 3);
    takeOthers(limiter, MAX_KEYS - 1);
    expect(limiter.take("a")).toBeDefined();
    limiter.take("c");
    // The key `a` was evicted, so its new entry counts from 0 until the counter returns the total of all workers.
    expect(limiter.take("a")).toBeUndefined();
    await counts.at(-1)?.answer({ total: 4, resetMs: 10_000 });
    expect(limiter.take("a")).toBeDefined();
  });

  it("evicts the key whose window started first, not the key that was used first", () => {
    const { limiter } = open();
    takes(limiter, "a", 3);
    vi.advanceTimersByTime(5000);
    takes(limiter, "b", 3);
    takeOthers(limiter, MAX_KEYS - 2);
    vi.advanceTimersByTime(5000);
    takes(limiter, "a", 3);
    limiter.take("c");
    expect(limiter.take("a")).toBeDefined();
    expect(limiter.take("b")).toBeUndefined();
  });
});
