import { expect, it } from "vitest";
import { relativeText } from "./relative.ts";

it("relativeText formats a relative time in its largest unit", () => {
  const now = Date.UTC(2027, 0, 31, 12);
  const at = (seconds: number) => relativeText(now + seconds * 1000, now);
  expect([at(-5), at(8), at(30), at(-59)]).toEqual(["just now", "just now", "in less than a minute", "just now"]);
  expect([at(-60), at(90 * 60), at(-40 * 3600)]).toEqual(["1 minute ago", "in 2 hours", "2 days ago"]);
  expect([at(90 * 86_400), at(-800 * 86_400)]).toEqual(["in 3 months", "2 years ago"]);
});
