import { expect, it } from "vitest";
import { countText } from "./words.ts";

it("countText uses the singular only for 1", () => {
  expect([0, 1, 1234].map((value) => countText(value, "group"))).toEqual(["0 groups", "1 group", "1,234 groups"]);
});
