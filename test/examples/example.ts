import { execFileSync } from "node:child_process";
import { cpSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ROOT, type RunningProcess, startProcess, waitUntilSaid } from "@user-group-service/testing/process";
import { freePort } from "@user-group-service/testing/wait";
import type { TestServer } from "../support/server.ts";

/** A copy of an example outside of the repository, which has nothing of it but what its own README says. */
export interface CopiedExample {
  readonly folder: string;
  /** Runs a command of its README there. @throws with what it wrote when it fails */
  run(command: string): void;
  remove(): void;
}

/** Copies an example as it is in the repository: without what was installed there. @param name of its folder in `examples/` */
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

/** Packs the client for TypeScript, of a copy: others may be packing it. @param folder where the archive goes */
export function packClient(folder: string): void {
  const place = mkdtempSync(join(tmpdir(), "ugs-pack-"));
  const parts = ["package.json", "README.md", "src", "tsconfig.build.json"].map((part) => `packages/client/${part}`);
  for (const part of ["LICENSE", "gen", "tsconfig.json", "src/sessions/rules.ts", ...parts])
    cpSync(join(ROOT, part), join(place, part), { recursive: true });
  // The generated code is ESM by this.
  writeFileSync(join(place, "package.json"), '{ "type": "module" }');
  symlinkSync(join(ROOT, "node_modules"), join(place, "node_modules"));
  try {
    execFileSync("npm", ["pack", "--pack-destination", folder], {
      cwd: join(place, "packages/client"),
      // npm finds no programs through the link.
      env: { ...process.env, PATH: `${join(ROOT, "node_modules/.bin")}:${process.env["PATH"]}` },
      stdio: "pipe",
    });
  } finally {
    rmSync(place, { recursive: true });
  }
}

/** An example that serves. */
export interface RunningExample extends RunningProcess {
  /** Of its page and back end. */
  readonly url: string;
  /** Of its host of dashboards. */
  readonly dashboardsUrl: string;
}

/** The settings of an example whose environment is `Customer` of a server, but for its ports. */
export function settingsOf({ url, tokens, environment }: Pick<TestServer, "url" | "tokens" | "environment">) {
  return { API_TOKEN: tokens.customer, UGS_URL: url, UGS_ENVIRONMENT: `${environment}/Customer` };
}

/**
 * Starts an example on free ports, and waits until it serves.
 *
 * @param env its settings but for the ports, see `settingsOf`
 */
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
    "the example serves",
    (output) => output.includes(url) && output.includes(dashboardsUrl),
  );
  return { ...started, url, dashboardsUrl };
}
