import { execFileSync } from "node:child_process";
import { renameSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { newFolder } from "@user-group-service/testing/opened";
import { ROOT } from "@user-group-service/testing/process";
import { RUNTIMES, type Runtime } from "@user-group-service/testing/runtime";
import { waitFor } from "@user-group-service/testing/wait";
import { describe, expect, it } from "vitest";
import { adminOf } from "./support/admin.ts";
import { newServer, newServerProcess } from "./support/opened.ts";
import { metricOf } from "./support/operations.ts";
import { grpcClients, succeeds } from "./support/rpc.ts";
import type { ServerProcess } from "./support/server.ts";

const PRELOAD = join(ROOT, "test/fixtures/hanging-file/preload.mjs");
const ROOT_TOKEN = `root-${crypto.randomUUID()}`;
const [TOKEN, LEAKED, NEW] = ["kept", "leaked", "new"].map((name) => `${name}-${crypto.randomUUID()}`);

const makePipe = (path: string) => execFileSync("mkfifo", [path]);

function newFiles() {
  const folder = newFolder();
  const pathOf = (name: string) => join(folder, name);
  const files = { ADMIN_TOKEN_FILE: pathOf("admin"), API_TOKENS_FILE: pathOf("api") };
  writeFileSync(files.ADMIN_TOKEN_FILE, ROOT_TOKEN);
  writeFileSync(files.API_TOKENS_FILE, `acme=${TOKEN}\nacme=${LEAKED}`);
  const replace = (path: string, make: (path: string) => unknown) => {
    make(`${path}-next`);
    renameSync(`${path}-next`, path);
  };
  return { folder, pathOf, files, replace };
}

async function startWith({ folder, files }: ReturnType<typeof newFiles>, runtime: Runtime, env = {}) {
  const denoFlags = [`--allow-read=${folder}`];
  const server = await newServer({ runtime, denoFlags, env: { API_TOKENS: "", ...files, ...env } });
  const { groups } = grpcClients(server, LEAKED);
  const isTaken = (setting: string) => metricOf(server, "ugs_config_last_reload_successful", { setting });
  return {
    server,
    isTaken,
    isLeakedValid: () => succeeds(groups.getUserGroup({ userGroupId: "a" })),
    isRootValid: (token: string) => succeeds(adminOf(server.url, token).listEnvironments({})),
    isRefused: async () => {
      await waitFor("the metric is 0", async () => (await isTaken("ADMIN_TOKEN_FILE")) === 0);
      const warned = server.log().filter(({ level, msg }) => level === "warn" && msg.includes("files of settings"));
      return String(warned.at(-1)?.["error"]);
    },
  };
}

/** Stops a server. The process must exit at most 15 seconds after its last log line. @returns the exit code */
async function end(server: ServerProcess): Promise<number | null> {
  server.signal("SIGTERM");
  await waitFor("the server logs that it has closed", () => server.log().some(({ msg }) => msg === "closed"));
  await waitFor("the process has exited", () => !server.isRunning(), 15_000);
  return server.exited();
}

describe.each(RUNTIMES)("files of settings, on %s", (runtime) => {
  it("an unreadable file is reported, does not affect other files, and is used when it is readable", async () => {
    const files = newFiles();
    const { ADMIN_TOKEN_FILE: admin, API_TOKENS_FILE: api } = files.files;
    const { server, isTaken, isLeakedValid, isRootValid, isRefused } = await startWith(files, runtime);
    expect(await isLeakedValid()).toBe(true);

    files.replace(admin, makePipe);
    expect(await isRefused()).toBe(`ADMIN_TOKEN_FILE cannot be read: not a regular file at ${admin}`);
    files.replace(api, (path) => writeFileSync(path, `acme=${TOKEN}`));
    await waitFor("the removed token is rejected", async () => !(await isLeakedValid()));
    expect(await isTaken("API_TOKENS_FILE")).toBe(1);

    files.replace(admin, (path) => writeFileSync(path, ROOT_TOKEN));
    await waitFor("the metric is 1", async () => (await isTaken("ADMIN_TOKEN_FILE")) === 1);
    files.replace(admin, (path) => {
      writeFileSync(path, "");
      truncateSync(path, 600_000_000);
    });
    expect(await isRefused()).toBe(`ADMIN_TOKEN_FILE is too large: more than 1048576 bytes at ${admin}`);
    expect(await isRootValid(ROOT_TOKEN)).toBe(true);

    files.replace(admin, (path) => writeFileSync(path, `${NEW}-root`));
    await waitFor("the new token is valid", () => isRootValid(`${NEW}-root`));
    files.replace(admin, makePipe);
    await isRefused();
    expect(await end(server)).toBe(0);
  });

  it("an unreadable file prevents the start with an error that names the setting", async () => {
    const { folder, pathOf, files } = newFiles();
    makePipe(pathOf("pipe"));
    const env = { ...files, API_TOKENS: "", API_TOKENS_FILE: pathOf("pipe") };
    const server = newServerProcess({ runtime, env, denoFlags: [`--allow-read=${folder}`] });
    expect(await server.exited()).toBe(1);
    expect(server.output()).toContain(`API_TOKENS_FILE cannot be read: not a regular file at ${pathOf("pipe")}`);
  });
});

it("the start on Deno reports a file that Deno has no permission to read", async () => {
  const { files, folder } = newFiles();
  const server = newServerProcess({ runtime: "deno", env: files, denoFlags: [`--allow-read=${folder}-other`] });
  expect(await server.exited()).toBe(1);
  const reason = "permissions.default.read in deno.json does not allow reads";
  expect(server.output()).toContain(`ADMIN_TOKEN_FILE cannot be read: ${reason} at ${files.ADMIN_TOKEN_FILE}`);
});

// Runs only on Node. Node reads files in a few threads, and waits for these threads when it exits.
describe("files of settings on a mount that does not respond", () => {
  const hanging = ({ files, pathOf }: ReturnType<typeof newFiles>) => ({
    ...{ NODE_OPTIONS: `--import=${PRELOAD}`, HANGING_FILE: files.ADMIN_TOKEN_FILE, HANGING_PIPE: pathOf("pipe") },
  });

  it("an unreadable file is reported and does not block the exit, and all files keep their last content", async () => {
    const files = newFiles();
    const { server, isTaken, isLeakedValid, isRootValid, isRefused } = await startWith(files, "node", hanging(files));
    files.replace(files.files.ADMIN_TOKEN_FILE, (path) => writeFileSync(path, `${NEW}-root`));
    await waitFor("the new token is valid", () => isRootValid(`${NEW}-root`));
    makePipe(files.pathOf("pipe"));
    expect(await isRefused()).toMatch(/^ADMIN_TOKEN_FILE cannot be read: no answer from the file system at/);
    files.replace(files.files.API_TOKENS_FILE, (path) => writeFileSync(path, `acme=${TOKEN}`));
    await waitFor("the other file of the mount is reported", async () => (await isTaken("API_TOKENS_FILE")) === 0);
    expect([await isLeakedValid(), await isRootValid(`${NEW}-root`)]).toEqual([true, true]);
    // A signal ended the process. A process that a signal ends has no exit code.
    expect(await end(server)).toBeNull();
  });

  it("an unreadable file prevents the start with an error that names the setting", async () => {
    const files = newFiles();
    makePipe(files.pathOf("pipe"));
    const server = newServerProcess({ env: { ...files.files, ...hanging(files) } });
    await waitFor("the process has exited", () => !server.isRunning(), 15_000);
    expect(await server.exited()).not.toBe(0);
    expect(server.output()).toContain("ADMIN_TOKEN_FILE cannot be read: no answer from the file system");
  });
});
