import { defineConfig } from "vitest/config";

/** Faults of Redis in all its shapes, apart from the other tests: they wait for failovers. */
export default defineConfig({
  test: {
    include: ["test/faults/**/*.test.ts"],
    globalSetup: "test/support/global-setup.ts",
    testTimeout: 120_000,
    hookTimeout: 60_000,
    maxWorkers: 2,
  },
});
