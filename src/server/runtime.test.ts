import { execFileSync } from "node:child_process";
import { expect, it } from "vitest";

it("V8 has the flag `--heap-growing-percent`", () => {
  const flags = execFileSync(process.execPath, ["--v8-options"], { encoding: "utf8" });
  expect(flags).toContain("--heap-growing-percent ");
});
