import { defineConfig } from "vitest/config";

/** The attacks on a server, apart from the other tests: they take minutes of CPU. */
export default defineConfig({
  test: {
    include: ["test/attacks/**/*.test.ts"],
    globalSetup: "test/attacks/support/global-setup.ts",
    testTimeout: 400_000,
    hookTimeout: 60_000,
    maxWorkers: 2,
    // Of attacks that only wait.
    maxConcurrency: 8,
  },
});
