import { execFileSync } from "node:child_process";
import { cpSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ROOT, type RunningProcess, startProcess, waitUntilSaid } from "@user-group-service/testing/process";
import { freePort } from "@user-group-service/testing/wait";
import type { TestServer } from "../support/server.ts";

/** A copy of an example outside of the repository, without installed packages. */
export interface CopiedExample {
  readonly folder: string;
  /** Runs a shell command in the copy. @throws if the command fails, with the output of the command */
  run(command: string): void;
  remove(): void;
}

/** Copies an example to a temporary folder. @param name name of the folder in `examples/` */
export function copyExample(name: string): CopiedExample {
  const folder = mkdtempSync(join(tmpdir(), `ugs-example-${name}-`));
  const files = execFileSync("git", ["ls-files", "--cached", "--others", "--exclude-standard", "-z"], {
    cwd: join(ROOT, "examples", name),
    encoding: "utf8",
  });
  for (const file of files.split("\0").filter(Boolean)) cpSync(join(ROOT, "examples", name, file), join(folder, file));
  const { PATH = "", HOME = "" } = process.env;
  return {
    folder,
    run: (command) => {
      execFileSync("sh", ["-e", "-c", command], { cwd: folder, env: { PATH, HOME }, stdio: "pipe" });
    },
    remove: () => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }),
  };
}

/**
 * Packs the TypeScript client into `folder`. Packs a copy of the client, because other tests pack the client in its own
 * folder at the same time.
 */
export function packClient(folder: string): void {
  const place = mkdtempSync(join(tmpdir(), "ugs-pack-"));
  const parts = ["package.json", "README.md", "src", "tsconfig.build.json"].map((part) => `packages/client/${part}`);
  for (const part of ["LICENSE", "gen", "tsconfig.json", "src/sessions/rules.ts", ...parts])
    cpSync(join(ROOT, part), join(place, part), { recursive: true });
  // This package.json declares that the generated code consists of ES modules.
  writeFileSync(join(place, "package.json"), '{ "type": "module" }');
  symlinkSync(join(ROOT, "node_modules"), join(place, "node_modules"));
  try {
    execFileSync("npm", ["pack", "--pack-destination", folder], {
      cwd: join(place, "packages/client"),
      // npm does not find the programs of `node_modules` through the symbolic link.
      env: { ...process.env, PATH: `${join(ROOT, "node_modules/.bin")}:${process.env["PATH"]}` },
      stdio: "pipe",
    });
  } finally {
    rmSync(place, { recursive: true });
  }
}

export interface RunningExample extends RunningProcess {
  readonly url: string;
  readonly dashboardsUrl: string;
}

/** Returns all settings of an example but its ports. The example uses the environment `Customer` of the server. */
export function settingsOf({ url, tokens, environment }: Pick<TestServer, "url" | "tokens" | "environment">) {
  return { API_TOKEN: tokens.customer, UGS_URL: url, UGS_ENVIRONMENT: `${environment}/Customer` };
}

/** Starts an example on free ports. @param env the settings of the example without the ports. See `settingsOf` */
export async function startExample(
  command: readonly string[],
  options: { readonly cwd: string; readonly env: { readonly [name: string]: string } },
): Promise<RunningExample> {
  const [port, dashboardsPort] = [await freePort(), await freePort()];
  const env = { ...options.env, PORT: String(port), DASHBOARDS_PORT: String(dashboardsPort) };
  const started = startProcess(command, { ...options, env });
  const [url, dashboardsUrl] = [`http://127.0.0.1:${port}`, `http://127.0.0.1:${dashboardsPort}`];
  await waitUntilSaid(
    started,
    "the example is ready",
    (output) => output.includes(url) && output.includes(dashboardsUrl),
  );
  return { ...started, url, dashboardsUrl };
}
