import { expect, it } from "vitest";
import { SeenIds } from "./seen-ids.ts";

it("SeenIds contains exactly the ids that were added", () => {
  const seen = new SeenIds();
  const ids = Array.from({ length: 20_000 }, (_, i) => `group ${i}`);
  expect(ids.filter((id) => !seen.add(id))).toEqual([]);
  expect(ids.filter((id) => seen.add(id))).toEqual([]);
  expect(seen.size).toBe(20_000);
  expect(ids.every((id) => seen.has(id))).toBe(true);
  expect(ids.some((id) => seen.has(`${id}x`))).toBe(false);
});
