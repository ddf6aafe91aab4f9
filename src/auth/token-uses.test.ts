import { afterEach, beforeEach, expect, it, vi } from "vitest";
import type { BoundPrincipal } from "./authenticator.ts";
import { TokenUses } from "./token-uses.ts";

const principal = (id: string, name = "acme"): BoundPrincipal => ({
  id,
  displayName: id,
  role: "read",
  environment: { name, tag: undefined, partitions: 1, number: 1 },
});

/** Uses over a store that keeps what is written, and fails when told to. */
function open() {
  const written: string[] = [];
  const state = { isAway: false };
  const noteUse = async ({ name }: { name: string }, id: string) => {
    if (state.isAway) throw new Error("away");
    written.push(`${name} ${id}`);
  };
  return { uses: new TokenUses({ noteUse }), written, state };
}

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

it("writes each token's use once, a little later, and again when it is used again", async () => {
  const { uses, written } = open();
  for (const one of [principal("a"), principal("a"), principal("b"), principal("a", "other")]) uses.note(one);
  expect(written).toEqual([]);
  await vi.advanceTimersByTimeAsync(1000);
  expect(written).toEqual(["acme a", "acme b", "other a"]);
  await vi.advanceTimersByTimeAsync(60_000);
  expect(written).toHaveLength(3);
  uses.note(principal("a"));
  await vi.advanceTimersByTimeAsync(1000);
  expect(written.slice(3)).toEqual(["acme a"]);
});

it("writes what waits when it is told to, and nothing afterwards", async () => {
  const { uses, written } = open();
  for (let i = 0; i < 120; i++) uses.note(principal(`t${i}`));
  await uses.flush();
  expect(written).toHaveLength(120);
  await vi.advanceTimersByTimeAsync(5000);
  expect(written).toHaveLength(120);
});

it("loses what it cannot write, asks no more of a store that fails, and goes on later", async () => {
  const { uses, written, state } = open();
  state.isAway = true;
  for (let i = 0; i < 120; i++) uses.note(principal(`t${i}`));
  await vi.advanceTimersByTimeAsync(1000);
  state.isAway = false;
  await vi.advanceTimersByTimeAsync(5000);
  expect(written).toEqual([]);
  uses.note(principal("t0"));
  await vi.advanceTimersByTimeAsync(1000);
  expect(written).toEqual(["acme t0"]);
});

it("holds no more than a bound", async () => {
  const { uses, written } = open();
  for (let i = 0; i < 10_005; i++) uses.note(principal(`t${i}`));
  await uses.flush();
  expect(written).toHaveLength(10_000);
});
