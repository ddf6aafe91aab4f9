import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { StoreUnavailable } from "../domain/errors.ts";
import type { ReadyKind } from "../domain/store.ts";
import { PROBE_KEPT_MS, Readiness } from "./readiness.ts";

/** Creates a `Readiness` and collects its log lines. Checks of the store wait until the test completes them. */
function open() {
  const waiting: { kind: ReadyKind; pass: () => void; fail: () => void }[] = [];
  const lines: string[] = [];
  const log = (_fields: object | string, message?: string) => lines.push(message ?? String(_fields));
  const check = (kind: ReadyKind) =>
    new Promise<void>((resolve, reject) =>
      waiting.push({ kind, pass: resolve, fail: () => reject(new StoreUnavailable()) }),
    );
  const readiness = new Readiness({ probe: { check }, logger: { info: log, error: log }, isOpen: () => true });
  return { readiness, waiting, lines };
}

beforeEach(() => void vi.useFakeTimers({ toFake: ["performance"] }));
afterEach(() => void vi.useRealTimers());

it("runs only one check of each kind for concurrent probes", async () => {
  const { readiness, waiting } = open();
  const results = [readiness.is("reads"), readiness.is("reads"), readiness.is("changes"), readiness.is("changes")];
  expect(waiting.map(({ kind }) => kind)).toEqual(["reads", "changes"]);
  waiting[0]?.pass();
  waiting[1]?.fail();
  expect(await Promise.all(results)).toEqual([true, true, false, false]);
});

it.each(["pass", "fail"] as const)("reuses the result `%s` of a check for `PROBE_KEPT_MS`", async (end) => {
  const { readiness, waiting } = open();
  const first = readiness.is("reads");
  waiting[0]?.[end]();
  expect(await first).toBe(end === "pass");
  vi.advanceTimersByTime(PROBE_KEPT_MS - 1);
  expect(await readiness.is("reads")).toBe(end === "pass");
  expect(waiting).toHaveLength(1);
});

it("checks again after `PROBE_KEPT_MS`, and logs only the first failure and the recovery", async () => {
  const { readiness, waiting, lines } = open();
  for (const end of ["pass", "fail", "fail", "pass", "pass"] as const) {
    const result = readiness.is("changes");
    waiting.at(-1)?.[end]();
    expect(await result).toBe(end === "pass");
    vi.advanceTimersByTime(PROBE_KEPT_MS);
  }
  expect(waiting).toHaveLength(5);
  expect(lines).toEqual(["not ready: changes fail", "ready again: changes"]);
});
