import fc from "fast-check";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { requests } from "./support/differential-arbitraries.ts";
import { exchangeAlike } from "./support/differential-compare.ts";
import { openPair } from "./support/differential-servers.ts";

/** Set FUZZ_SEED to test other requests, and FUZZ_RUNS to test more requests. */
const seed = Number(process.env["FUZZ_SEED"] ?? 3);
const numRuns = Number(process.env["FUZZ_RUNS"] ?? 1500);

const pair = await openPair();
beforeAll(() => {
  // Connect's adapter logs disconnected callers to the console.
  vi.spyOn(console, "error").mockReturnValue();
});
afterAll(() => pair.close());

it(`the port answers ${numRuns} generated and mutated requests like Connect's adapter (seed ${seed})`, {
  timeout: 600_000,
}, async () => {
  let [served, refused] = [0, 0];
  await fc.assert(
    fc.asyncProperty(requests, async (request) => {
      const { effects } = await exchangeAlike(pair, request);
      if (effects.length > 0) served++;
      else refused++;
    }),
    { seed, numRuns, endOnFailure: false },
  );
  expect(served).toBeGreaterThan(numRuns / 5);
  expect(refused).toBeGreaterThan(numRuns / 5);
});
