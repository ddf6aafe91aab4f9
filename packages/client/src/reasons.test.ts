import { rowsOf } from "@user-group-service/testing/documents";
import { expect, it } from "vitest";
import { REASONS } from "./reasons.ts";

it("has every reason of the table of errors, and no other", () => {
  expect([...REASONS]).toEqual(rowsOf("docs/api.md", "Errors").map(([, reason]) => reason));
});
