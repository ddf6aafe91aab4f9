import { defineConfig, type TestProjectInlineConfiguration } from "vitest/config";

/** Tests that take seconds or minutes. Only `npm run test:all` runs them. */
const LONG = "**/*.long.test.ts";

/**
 * Tests with many clients, stores and runtimes. `npm test` runs some of the combinations. `npm run test:all` also runs
 * the remaining combinations.
 */
const MATRICES = ["**/*.matrix.test.ts"];

/** Attacks on the service, and on the transport alone. */
const ATTACKS = "{test,packages/*/test}/attacks/**/*.test.ts";

/** Imports of our own packages by name resolve to their sources. */
const resolve = { tsconfigPaths: true };

/** Imports Redis scripts as strings. */
const plugins = [
  {
    name: "lua",
    transform: (code: string, id: string) =>
      id.endsWith(".lua") ? `export default ${JSON.stringify(code)}` : undefined,
  },
];

const INSTALLED = "**/node_modules/**";

/** `npm test` runs the first two projects. With `--mode short`, `faults` and `attacks` run a part of their tests. */
export default defineConfig(({ mode }) => {
  const isShort = mode === "short";
  const projects: TestProjectInlineConfiguration[] = [
    project("units", {
      include: ["{src,scripts,packages/*/src}/**/*.test.ts"],
      exclude: [LONG],
      // Test files leave no state behind. So one process can run several files, and loads shared modules only once.
      isolate: false,
    }),
    project("service", {
      include: ["{test,packages/*/test}/**/*.test.ts"],
      exclude: [LONG, "test/{faults,go}/*.test.ts", ATTACKS],
      provide: { matrixShare: "one client a protocol" },
      isolate: false,
    }),
    project("long", { include: [LONG, ...MATRICES], provide: { matrixShare: "the rest" }, isolate: false }),
    // The faults put load on Redis and wait for failovers. The attacks measure the CPU time and memory of a process. A
    // short run saves time by running faults and attacks together. A whole run runs the attacks after the faults, so
    // that the measurements are more precise.
    project("faults", {
      include: isShort ? ["test/faults/{events,history*}.test.ts"] : ["test/faults/*.test.ts"],
      provide: { isShort },
      maxWorkers: isShort ? 3 : 1,
      disableConsoleIntercept: true,
      sequence: { groupOrder: 1 },
    }),
    project("attacks", {
      include: [ATTACKS],
      provide: { isShort },
      testTimeout: 400_000,
      maxWorkers: isShort ? 3 : 2,
      // Number of attacks that run at the same time, if the suite is concurrent.
      maxConcurrency: 8,
      sequence: { groupOrder: isShort ? 1 : 2 },
    }),
    // The first compilation by Go takes minutes.
    project("go", { include: ["test/go/*.test.ts"], testTimeout: 900_000 }),
  ];
  return {
    resolve,
    plugins,
    test: {
      globalSetup: "test/support/global-setup.ts",
      projects,
    },
  };
});

/** A project with the common options. */
function project(
  name: string,
  options: NonNullable<TestProjectInlineConfiguration["test"]>,
): TestProjectInlineConfiguration {
  return {
    resolve,
    plugins,
    test: {
      name,
      // Only a hanging test reaches this timeout. `waitFor` has a shorter timeout, because its error names the
      // condition.
      testTimeout: 180_000,
      hookTimeout: 180_000,
      // Most tests wait for servers in other processes, so more workers than cores are useful.
      maxWorkers: 4,
      ...options,
      exclude: [INSTALLED, ...(options.exclude ?? [])],
    },
  };
}
