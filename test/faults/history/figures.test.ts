import { expect, it } from "vitest";
import { figuresOf, figuresText } from "./figures.ts";
import { created, get, NOT_MADE, resolve, UNREAD, update } from "./told.ts";

it("counts calls and errors, and tells the longest outage of a shard", () => {
  const elsewhere = Array.from({ length: 10 }, (_, i) => get([i * 500, i * 500 + 400], {}, { group: "one/b" }));
  const calls = [
    created,
    update("n1", [500, 1000]),
    update("n2", [1100, 1200], NOT_MADE),
    resolve("t0", [1300, 2300], UNREAD),
    get([2400, 4000]),
    ...elsewhere,
    get([90_000, 90_001], {}, { isFinal: true }),
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
