import { defineConfig } from "vitest/config";
import { LongestFirst } from "./test/support/longest-first.ts";

/** What imports a package of ours by its name has its sources. */
const resolve = { tsconfigPaths: true };

const common = {
  // Nothing waits this long but what hangs, however busy the machine is; longer than `waitFor`, which says for what.
  testTimeout: 180_000,
  hookTimeout: 180_000,
  // Most tests wait for servers in processes of their own.
  maxWorkers: 4,
};

export default defineConfig({
  test: {
    ...common,
    globalSetup: "test/support/global-setup.ts",
    sequence: { sequencer: LongestFirst },
    projects: [
      {
        resolve,
        test: {
          ...common,
          name: "service",
          include: ["test/**/*.test.ts", "packages/*/test/**/*.test.ts"],
          // `npm run test:attacks`, `npm run test:faults` and `npm run test:go` run those.
          exclude: ["test/attacks/**", "test/faults/*.test.ts", "test/go/**"],
        },
      },
      {
        resolve,
        test: {
          ...common,
          name: "units",
          include: ["src/**/*.test.ts", "packages/*/src/**/*.test.ts"],
          // They leave nothing behind, so that a process runs several and loads what they share once.
          isolate: false,
        },
      },
    ],
  },
});
