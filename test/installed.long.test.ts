import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { http1 } from "@user-group-service/testing/http";
import { newFolder, newProcess } from "@user-group-service/testing/opened";
import { descendants, ROOT, startProcess, waitUntilGone, waitUntilSaid } from "@user-group-service/testing/process";
import { denoBinary, UNFORESEEN } from "@user-group-service/testing/runtime";
import { describe, expect, it } from "vitest";
import { newNpmRegistry } from "./support/npm-registry.ts";
import { redisUrl } from "./support/opened.ts";
import { TOKEN_KEYS } from "./support/server.ts";
import { newTerminal } from "./support/terminal.ts";

const API_TOKEN = "0123456789abcdef";
const API_TOKENS = `e/Customer=${API_TOKEN}`;

/** Maps each tool to its commands in docs/operations/install.md. */
const COMMANDS = {
  npx: { service: ["npx", "--yes", "user-group-service"], ugs: ["npx", "--yes", "-p", "user-group-service", "ugs"] },
  deno: {
    service: [denoBinary(), "run", "-A", "npm:user-group-service"],
    ugs: [denoBinary(), "run", "-A", "npm:user-group-service/ugs"],
  },
};

const REDIS = { REDIS_URL: redisUrl ?? "", TOKEN_KEYS, CONSOLE: "on" };

const STORES: readonly (readonly [string, { readonly [name: string]: string }])[] = [
  ["the embedded store", {}],
  ...(redisUrl === undefined
    ? []
    : ([
        ["Redis", REDIS],
        ["Redis and two workers", { ...REDIS, WORKERS: "2" }],
      ] as const)),
];

function newTarball(): string {
  const folder = newFolder();
  execFileSync("npm", ["pack", "./dist", "--pack-destination", folder], { cwd: ROOT, stdio: "pipe" });
  const [name = ""] = readdirSync(folder);
  return join(folder, name);
}

/**
 * Creates a home folder that has no caches, and a registry that contains only the packed service. Returns an empty
 * folder, and environment variables that select this home folder and this registry.
 */
async function newHome(): Promise<{ readonly cwd: string; readonly env: { readonly [name: string]: string } }> {
  const tarball = newTarball();
  const manifest = JSON.parse(readFileSync(`${ROOT}/dist/package.json`, "utf8")) as { name: string; version: string };
  const registry = await newNpmRegistry(tarball, manifest);
  const home = newFolder();
  const env = {
    HOME: home,
    npm_config_cache: join(home, "npm"),
    npm_config_registry: registry,
    NPM_CONFIG_REGISTRY: registry,
    DENO_DIR: join(home, "deno"),
    npm_config_update_notifier: "false",
  };
  return { cwd: newFolder(), env };
}

describe.each(["npx", "deno"] as const)("%s, in an empty folder,", (habit) => {
  const { service, ugs } = COMMANDS[habit];

  it.each(STORES)(
    "serves calls, the console and the docs with %s, and leaves no processes or files behind",
    async (_store, settings) => {
      const { cwd, env } = await newHome();
      const session = newTerminal(service.join(" "), { cwd, env: { ...env, ...settings, PORT: "0", API_TOKENS } });
      const serving = settings["WORKERS"] === "2" ? /^Serving on (\S+) with 2 workers\./m : /^Serving on (\S+)\. /m;
      const url = await waitUntilSaid(session, "it listens", () => serving.exec(session.screen())?.[1]);
      const headers = { authorization: `Token ${API_TOKEN}` };
      expect((await http1(url, "/api/user?user_group_id=acme", { headers })).status).toBe(200);
      for (const path of ["/console/", "/console/console.js", "/docs/", "/docs/swagger-ui-bundle.js", "/openapi.json"])
        expect([path, (await http1(url, path)).status]).toEqual([path, 200]);
      const pinged = newProcess(startProcess([...ugs, "ping"], { cwd, env: { ...env, UGS_URL: url } }));
      expect([await pinged.exited(), pinged.output()]).toEqual([0, expect.stringContaining("is ready")]);

      const pids = descendants(session.pid);
      expect(pids.length).toBeGreaterThan(0);
      session.type("\x03");
      await session.exited();
      for (const pid of pids) await waitUntilGone(pid);
      expect(session.screen()).toMatch(/INFO {2}closed\n/);
      expect(session.screen()).not.toMatch(UNFORESEEN);
      expect(readdirSync(cwd)).toEqual([]);
    },
  );
});

it("the service runs from the tarball with npx, as the README describes", () => {
  const cwd = newFolder();
  const command =
    /`(npx \.\/\S+\.tgz)`/.exec(readFileSync(`${ROOT}/README.md`, "utf8"))?.[1] ?? expect.fail("README.md");
  const tarball = newTarball();
  const env = { PATH: process.env["PATH"], HOME: cwd, npm_config_offline: "true", npm_config_yes: "true" };
  const at = command.replace("./", `${dirname(relative(cwd, tarball))}/`);
  const { version } = JSON.parse(readFileSync(`${ROOT}/package.json`, "utf8")) as { version: string };
  expect(execFileSync("sh", ["-c", `${at} --version`], { cwd, env, encoding: "utf8" })).toBe(`${version}\n`);
});

it("the service and ugs run from node_modules after npm install of the tarball", () => {
  const cwd = newFolder();
  const env = { PATH: process.env["PATH"], HOME: cwd, npm_config_offline: "true", npm_config_audit: "false" };
  const run = (...args: string[]) => execFileSync("npx", args, { cwd, env, encoding: "utf8", stdio: "pipe" });
  execFileSync("npm", ["install", newTarball()], { cwd, env, stdio: "pipe" });
  expect(readdirSync(join(cwd, "node_modules")).filter((name) => !name.startsWith("."))).toEqual([
    "user-group-service",
  ]);
  const { version } = JSON.parse(readFileSync(`${ROOT}/package.json`, "utf8")) as { version: string };
  expect(run("user-group-service", "--version")).toBe(`${version}\n`);
  expect(run("ugs", "--version")).toBe(`${version}\n`);
});
