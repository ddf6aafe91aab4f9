import { rowsOf } from "@user-group-service/testing/documents";
import { expect, it } from "vitest";
import { REASONS } from "./reasons.ts";

it("has exactly the reasons of the table of errors", () => {
  expect([...REASONS]).toEqual(rowsOf("docs/api.md", "Errors").map(([, reason]) => reason));
});
