import { defineConfig } from "vitest/config";

/**
 * Faults of Redis in all its shapes, apart from the other tests: they wait for failovers. `--mode short` runs a part of
 * them, each for a shorter time.
 */
export default defineConfig(({ mode }) => ({
  test: {
    include: mode === "short" ? ["test/faults/history.test.ts"] : ["test/faults/*.test.ts"],
    globalSetup: "test/support/global-setup.ts",
    provide: { isShort: mode === "short" },
    testTimeout: 120_000,
    hookTimeout: 60_000,
    // What a fault leaves of the machine is for its own load.
    maxWorkers: 1,
    disableConsoleIntercept: true,
  },
}));
