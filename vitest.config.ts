import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["src/**/*.test.ts", "test/**/*.test.ts"],
    // `npm run test:attacks` and `npm run test:faults` run those.
    exclude: ["test/attacks/**", "test/faults/*.test.ts"],
    globalSetup: "test/support/global-setup.ts",
    // Servers start and stop within tests; nothing waits this long but what hangs.
    testTimeout: 60_000,
    hookTimeout: 60_000,
    // Most tests wait for servers in processes of their own.
    maxWorkers: 3,
  },
});
