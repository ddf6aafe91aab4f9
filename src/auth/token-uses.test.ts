import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { TokenUses } from "./token-uses.ts";

/** Uses over a store that keeps what is written, and fails when told to. */
function open() {
  const written: string[] = [];
  const state = { isAway: false };
  const noteUse = async (digest: string) => {
    if (state.isAway) throw new Error("away");
    written.push(digest);
  };
  return { uses: new TokenUses({ noteUse }), written, state };
}

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

it("writes each token's use once, a little later, and again when it is used again", async () => {
  const { uses, written } = open();
  for (const one of ["a", "a", "b", "a"]) uses.note(one);
  expect(written).toEqual([]);
  await vi.advanceTimersByTimeAsync(1000);
  expect(written).toEqual(["a", "b"]);
  await vi.advanceTimersByTimeAsync(60_000);
  expect(written).toHaveLength(2);
  uses.note("a");
  await vi.advanceTimersByTimeAsync(1000);
  expect(written.slice(2)).toEqual(["a"]);
});

it("writes what waits when it is told to, and nothing afterwards", async () => {
  const { uses, written } = open();
  for (let i = 0; i < 120; i++) uses.note(`t${i}`);
  await uses.flush();
  expect(written).toHaveLength(120);
  await vi.advanceTimersByTimeAsync(5000);
  expect(written).toHaveLength(120);
});

it("loses what it cannot write, asks no more of a store that fails, and goes on later", async () => {
  const { uses, written, state } = open();
  state.isAway = true;
  for (let i = 0; i < 120; i++) uses.note(`t${i}`);
  await vi.advanceTimersByTimeAsync(1000);
  state.isAway = false;
  await vi.advanceTimersByTimeAsync(5000);
  expect(written).toEqual([]);
  uses.note("t0");
  await vi.advanceTimersByTimeAsync(1000);
  expect(written).toEqual(["t0"]);
});

it("holds no more than a bound", async () => {
  const { uses, written } = open();
  for (let i = 0; i < 10_005; i++) uses.note(`t${i}`);
  await uses.flush();
  expect(written).toHaveLength(10_000);
});
