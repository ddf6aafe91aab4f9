import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { silentCounter } from "../../test/support/silent-counter.ts";
import { ROOT } from "./authenticator.ts";
import { FailureLimits, TokenLimits } from "./caller-limits.ts";
import { RateLimits } from "./rate-limits.ts";

function open(max: number) {
  const { keys, counter } = silentCounter();
  return { keys, limits: new RateLimits({ limit: { max, windowSeconds: 60 }, counter }) };
}

/** What a promise has come to by now; undefined: nothing. */
async function now<T>(promise: T | Promise<T>): Promise<T | undefined> {
  return Promise.race([promise, new Promise<undefined>((resolve) => setImmediate(resolve, undefined))]);
}

const ENVIRONMENT = { name: "acme", tag: "Customer", partitions: 1, number: 1 } as const;
const bearer = (id: string, environment: { readonly name: string; readonly tag: "Customer" | "Testing" | undefined }) =>
  ({ id, displayName: "A", role: "manage", environment: { ...ENVIRONMENT, ...environment } }) as const;

it("API tokens are limited each for itself, by environment and id, and root is not", () => {
  const { keys, limits } = open(1);
  const tokens = new TokenLimits(limits);
  const one = bearer("a", { name: "acme", tag: "Customer" });
  expect(tokens.take(one)).toBeUndefined();
  expect(tokens.take({ ...one })).toMatchObject({ limit: { max: 1 } });
  expect(tokens.take(bearer("b", one.environment))).toBeUndefined();
  expect(tokens.take(bearer("a", { name: "acme", tag: "Testing" }))).toBeUndefined();
  expect(tokens.take(bearer("a", { name: "acme", tag: undefined }))).toBeUndefined();
  expect(keys).toEqual(["acme/Customer/a", "acme/Customer/b", "acme/Testing/a", "acme//a"]);
  for (let i = 0; i < 10; i++) expect(tokens.take(ROOT)).toBeUndefined();
  expect(keys).toHaveLength(4);
});

describe("limits on failures", () => {
  beforeEach(() => void vi.useFakeTimers({ toFake: ["performance"] }));
  afterEach(() => void vi.useRealTimers());

  /** Begins so many look-ups of a client, all at once. */
  const begin = (failures: FailureLimits, times: number, client = "a") =>
    Array.from({ length: times }, () => failures.beginLookUp(client));
  /** Ends one that found nothing. */
  const failOne = (failures: FailureLimits, client = "a") => {
    const limited = failures.fail(client);
    failures.endLookUp(client);
    return limited;
  };

  it("let each client fail so often, and then look something up now and then", () => {
    const { keys, limits } = open(2);
    const failures = new FailureLimits(limits);
    expect(failures.fail("a")).toBeUndefined();
    expect(failures.fail("a")).toBeUndefined();
    expect(failures.fail("a")).toMatchObject({ limit: { max: 2 }, retryAfterMs: 60_000 });
    expect(failures.fail("b")).toBeUndefined();
    expect(keys).toEqual(["a", "b"]);
    expect(begin(failures, 3)).toEqual([true, false, false]);
    failures.endLookUp("a");
    expect(failures.beginLookUp("a")).toBe(false);
    vi.advanceTimersByTime(100);
    expect(begin(failures, 2)).toEqual([true, false]);
    expect(failures.beginLookUp("b")).toBe(true);
  });

  it("count look-ups under way as failures until it is known what they found", async () => {
    const failures = new FailureLimits(open(3).limits);
    expect(failures.fail("a")).toBeUndefined();
    const begun = begin(failures, 1000);
    expect(begun.slice(0, 2)).toEqual([true, true]);
    expect((await Promise.all(begun.slice(2).map(now))).filter((each) => each !== undefined)).toEqual([]);
    // Others are not concerned.
    expect(failures.beginLookUp("b")).toBe(true);
    expect(failOne(failures)).toBeUndefined();
    expect(await now(begun[2])).toBeUndefined();
    expect(failOne(failures)).toBeUndefined();
    const rest = await Promise.all(begun.slice(2).map(now));
    // The limit is reached, so one of them is let through at the bounded rate.
    expect(rest).toEqual([true, ...Array(997).fill(false)]);
    expect(failOne(failures)).toMatchObject({ limit: { max: 3 } });
  });

  it("let others be looked up in their order when some were good, or the store has failed", async () => {
    const failures = new FailureLimits(open(3).limits);
    const begun = begin(failures, 5);
    failures.endLookUp("a");
    expect(await Promise.all(begun.map(now))).toEqual([true, true, true, true, undefined]);
    expect(failures.beginLookUp("a")).toBeInstanceOf(Promise);
    for (let i = 0; i < 5; i++) failures.endLookUp("a");
    expect(await Promise.all(begun.map(now))).toEqual(Array(5).fill(true));
    // All have ended, and nothing is left of them.
    expect(begin(failures, 3)).toEqual([true, true, true]);
    expect(failures.beginLookUp("a")).toBeInstanceOf(Promise);
  });

  it("make nobody wait for long while the store is slow", async () => {
    const failures = new FailureLimits(open(1).limits);
    const [, first] = begin(failures, 2);
    vi.advanceTimersByTime(600);
    const second = failures.beginLookUp("a");
    vi.advanceTimersByTime(400);
    failures.endLookUp("a");
    expect(await now(first)).toBe(false);
    expect(await now(second)).toBe(true);
    expect(failures.notLookedUp()).toEqual({ limit: { max: 1, windowSeconds: 60 }, retryAfterMs: 1000 });
  });

  it("let those through that waited when a window ends meanwhile", async () => {
    const failures = new FailureLimits(open(2).limits);
    failures.fail("a");
    const [, second, third] = begin(failures, 3);
    vi.advanceTimersByTime(60_000);
    // Room for a newcomer; who has waited for so long is told to come again.
    expect(failures.beginLookUp("a")).toBe(true);
    failures.endLookUp("a");
    expect(await Promise.all([now(second), now(third)])).toEqual([false, false]);
    failures.endLookUp("a");
    expect(begin(failures, 2)).toEqual([true, true]);
  });
});
