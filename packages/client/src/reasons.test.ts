import { expect, it } from "vitest";
import { rowsOf } from "../../../test/support/documents.ts";
import { REASONS } from "./reasons.ts";

it("has every reason of the table of errors, and no other", () => {
  expect([...REASONS]).toEqual(rowsOf("docs/api.md", "Errors").map(([, reason]) => reason));
});
