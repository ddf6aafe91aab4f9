import { textOf } from "@user-group-service/testing/documents";
import { expect, it } from "vitest";
import { firstTable } from "../bench/report.ts";

it("docs/performance.md contains the first table of bench/results/calls.md", () => {
  const table = firstTable(textOf("bench/results/calls.md"));
  expect(table).toMatch(/^\| .*\|\n\|---/);
  expect(textOf("docs/performance.md")).toContain(table);
});
