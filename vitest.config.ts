import { defineConfig, type TestProjectInlineConfiguration } from "vitest/config";

/** Tests that need minutes, wherever they stand: `npm run test:all` runs them, `npm test` does not. */
const LONG = "**/*.long.test.ts";

/** Those of `npm test` that try every way to call the service: it runs them with some ways, `npm run test:all` with the others. */
const MATRICES = ["**/*.matrix.test.ts"];

/** On the service, and on the port of the transport. */
const ATTACKS = "{test,packages/*/test}/attacks/**/*.test.ts";

/** What imports a package of ours by its name has its sources. */
const resolve = { tsconfigPaths: true };

/** Scripts of Redis are imported as texts. */
const plugins = [
  {
    name: "lua",
    transform: (code: string, id: string) =>
      id.endsWith(".lua") ? `export default ${JSON.stringify(code)}` : undefined,
  },
];

const INSTALLED = "**/node_modules/**";

/** `npm test` runs the first two projects. With `--mode short`, `faults` and `attacks` are a part of what they are by themselves. */
export default defineConfig(({ mode }) => {
  const isShort = mode === "short";
  const projects: TestProjectInlineConfiguration[] = [
    project("units", {
      include: ["{src,scripts,packages/*/src}/**/*.test.ts"],
      exclude: [LONG],
      // As in those below, files leave nothing behind, so that a process runs several and loads what they share once.
      isolate: false,
    }),
    project("service", {
      include: ["{test,packages/*/test}/**/*.test.ts"],
      exclude: [LONG, "test/{faults,go,rehearsals}/*.test.ts", ATTACKS],
      provide: { matrixShare: "one client a protocol" },
      isolate: false,
    }),
    project("long", { include: [LONG, ...MATRICES], provide: { matrixShare: "the rest" }, isolate: false }),
    // They wait for failovers. What a fault leaves of the machine is for its own load.
    project("faults", {
      include: isShort ? ["test/faults/history.test.ts"] : ["test/faults/*.test.ts"],
      provide: { isShort },
      maxWorkers: 1,
      disableConsoleIntercept: true,
      sequence: { groupOrder: 1 },
    }),
    // What an attack costs is measured: nothing else may run.
    project("attacks", {
      include: [ATTACKS],
      globalSetup: "packages/testing/src/attacks/global-setup.ts",
      provide: { isShort },
      testTimeout: 400_000,
      maxWorkers: 2,
      // Of attacks that only wait.
      maxConcurrency: 8,
      sequence: { groupOrder: 2 },
    }),
    // What operators do now and then, with figures; they say how much time it takes on a machine that does nothing else.
    project("rehearsals", {
      include: ["test/rehearsals/*.test.ts"],
      testTimeout: 600_000,
      maxWorkers: 1,
      disableConsoleIntercept: true,
    }),
    // The first time, Go compiles for minutes.
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

/** A project of the tests, with what they have in common. */
function project(
  name: string,
  options: NonNullable<TestProjectInlineConfiguration["test"]>,
): TestProjectInlineConfiguration {
  return {
    resolve,
    plugins,
    test: {
      name,
      // Nothing waits this long but what hangs, however busy the machine is; longer than `waitFor`, which says for what.
      testTimeout: 180_000,
      hookTimeout: 180_000,
      // Most tests wait for servers in processes of their own.
      maxWorkers: 4,
      ...options,
      exclude: [INSTALLED, ...(options.exclude ?? [])],
    },
  };
}
