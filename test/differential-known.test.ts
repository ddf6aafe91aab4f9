import { afterEach, describe, expect, it, vi } from "vitest";
import { type Outcome, openPair } from "./support/differential-servers.ts";
import { codeOf, type Excerpt, KNOWN_DIFFERENCES } from "./support/known-differences.ts";

afterEach(() => vi.restoreAllMocks());

function excerpt(outcome: Outcome, like: Excerpt): Excerpt {
  const all = {
    status: outcome.status,
    end: outcome.end,
    code: codeOf(outcome),
    headers: outcome.headers.find((line) => line.startsWith("x-")),
    calls: outcome.effects.filter(({ where }) => where === "implementation").length,
  };
  return Object.fromEntries(Object.entries(all).filter(([what]) => what in like));
}

describe.each(KNOWN_DIFFERENCES)("$name", ({ requests, lean, connect, reason }) => {
  it(`holds: ${reason}`, async () => {
    vi.spyOn(console, "error").mockReturnValue();
    expect(requests.length).toBeGreaterThan(0);
    const outcomes = await Promise.all(
      requests.map(async (request) => {
        const own = await openPair();
        const outcome = await own.exchange(request);
        await own.close();
        return outcome;
      }),
    );
    for (const outcome of outcomes) {
      expect(excerpt(outcome.lean, lean)).toEqual(lean);
      expect(excerpt(outcome.connect, connect)).toEqual(connect);
    }
  });
});
