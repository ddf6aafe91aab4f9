import { defineConfig } from "vitest/config";

/** A client in Go, apart from the other tests: the first time, Go compiles for minutes. */
export default defineConfig({
  test: {
    include: ["test/go/*.test.ts"],
    globalSetup: "test/support/global-setup.ts",
    testTimeout: 900_000,
    hookTimeout: 60_000,
  },
});
