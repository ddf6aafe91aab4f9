import { expect, it } from "vitest";
import { figuresOf, figuresText } from "./figures.ts";
import { at, created, get, NOT_MADE, resolve, UNREAD, update } from "./told.ts";

it("counts calls and errors, and tells the longest outage of a shard", () => {
  const elsewhere = Array.from({ length: 10 }, (_, i) => at([i * 500, i * 500 + 400], get({}, { group: "one/b" })));
  const calls = [
    created,
    at([500, 1000], update("n1")),
    at([1100, 1200], update("n2", NOT_MADE)),
    at([1300, 2300], resolve("t0", UNREAD)),
    at([2400, 4000], get()),
    ...elsewhere,
    at([90_000, 90_001], get({}, { isFinal: true })),
  ];
  const figures = figuresOf(calls, (group) => group);
  expect(figures.calls).toBe(15);
  expect(figures.seconds).toBe(4.9);
  expect(Object.fromEntries(figures.errors)).toEqual({
    "unavailable STORE_UNAVAILABLE not_made": 1,
    "unavailable STORE_UNAVAILABLE": 1,
  });
  expect(figures.outageMs).toBe(3000);
  // None of the changes was in the other shard.
  expect(figures.changeOutageMs).toBe(4900);
  expect(figuresText(figures)).toEqual([
    "15 calls in 4.90 s; longest outage 3.00 s, of changes 4.90 s",
    "errors: 1 unavailable STORE_UNAVAILABLE not_made, 1 unavailable STORE_UNAVAILABLE",
  ]);
});
