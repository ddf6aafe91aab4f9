import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, readdirSync, readFileSync, symlinkSync } from "node:fs";
import { dirname, join } from "node:path";
import { newFolder, newProcess } from "@user-group-service/testing/opened";
import { ROOT, startProcess, waitUntilSaid } from "@user-group-service/testing/process";
import { waitFor } from "@user-group-service/testing/wait";
import { describe, expect, it } from "vitest";
import { redisUrl } from "./support/opened.ts";
import { TOKEN_KEYS } from "./support/server.ts";
import { newTerminal } from "./support/terminal.ts";

/** Starts a command in a folder, and waits until its server is ready. @returns the URL of the server */
async function listens(cwd: string, command: string, env: { readonly [name: string]: string }): Promise<string> {
  const settings = { PORT: "0", REDIS_TIMEOUT: "10s", ...env };
  const server = newProcess(startProcess(["sh", "-c", `exec ${command}`], { cwd, env: settings }));
  return waitUntilSaid(server, "it is ready", (output) => /"url":"([^"]+)"[^\n]*"msg":"listening"/.exec(output)?.[1]);
}

/**
 * Creates, updates, rotates and resolves a group. The store runs Lua scripts for these calls. If a script is missing in
 * `dist/`, a call fails.
 */
async function useEveryScript(url: string, apiToken: string): Promise<void> {
  const headers = { authorization: `Token ${apiToken}`, "content-type": "application/json" };
  const rest = async (method: string, query: string, body?: object) => {
    const init = body ? { body: JSON.stringify(body) } : {};
    const response = await fetch(`${url}/api/user${query}`, { method, headers, ...init });
    expect(response.status).toBe(200);
    return ((await response.json()) as { user_group: { token: string } }).user_group.token;
  };
  const id = crypto.randomUUID();
  await rest("GET", `?user_group_id=${id}`);
  const token = await rest("PUT", "", { user_group_id: id, name: "New" });
  const rotated = await rest("POST", "", { current_token: token, previous_token_ttl: "60s" });
  const response = await fetch(`${url}/usergroup.v1.ViewerService/ResolveViewer`, {
    method: "POST",
    headers,
    body: JSON.stringify({ token: rotated }),
  });
  expect(await response.json()).toMatchObject({ providedId: id, name: "New" });
}

describe("dist/ alone, without node_modules above it", () => {
  const API_TOKEN = "0123456789abcdef";
  const newDist = () => {
    const folder = newFolder();
    cpSync(`${ROOT}/dist`, join(folder, "dist"), { recursive: true });
    return folder;
  };

  it("contains the license of every bundled package", () => {
    const licenses = readFileSync(`${ROOT}/dist/LICENSES.txt`, "utf8");
    /** Each part has the names of packages, and the text of the license of these packages. */
    const parts = licenses.split(/\n-{80}\n\n/).map((part) => part.split(/\n\n(.*)/s));
    const bundled = new Set<string>();
    for (const name of readdirSync(`${ROOT}/dist`).filter((file) => file.endsWith(".map"))) {
      const { sources } = JSON.parse(readFileSync(`${ROOT}/dist/${name}`, "utf8")) as { sources: string[] };
      for (const source of sources) bundled.add(/.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(source)?.[0] ?? "");
    }
    bundled.delete("");
    expect(bundled.size).toBeGreaterThan(30);
    for (const folder of bundled) {
      const name = folder.slice(folder.lastIndexOf("node_modules/") + "node_modules/".length);
      const [, text] =
        parts.find(([names = ""]) => names.split("\n").some((each) => each.split(/[ ,]/)[0] === name)) ?? [];
      expect(text, name).toMatch(/Permission (is|to use)|Apache License|Redistribution and use/);
    }
    expect(licenses).toContain("Redistributions in binary form must reproduce the above");
    expect(licenses).toContain(readFileSync(`${ROOT}/LICENSE`, "utf8").trim());
  });

  it("serves with the embedded store", async () => {
    const url = await listens(newDist(), `${process.execPath} dist/main.js`, { API_TOKENS: `e=${API_TOKEN}` });
    await useEveryScript(url, API_TOKEN);
    expect(await (await fetch(`${url}/metrics`)).text()).toContain("process_resident_memory_bytes");
  });

  it.skipIf(redisUrl === undefined).each(["1", "2"])("serves with Redis and WORKERS=%s", async (WORKERS) => {
    const env = { API_TOKENS: `e=${API_TOKEN}`, REDIS_URL: redisUrl ?? "", TOKEN_KEYS, WORKERS };
    await useEveryScript(await listens(newDist(), `${process.execPath} dist/main.js`, env), API_TOKEN);
  });

  it("prints a welcome on a terminal", async () => {
    const command = `${process.execPath} dist/main.js`;
    const session = newTerminal(command, { cwd: newDist(), env: { PORT: "0" } });
    await waitFor("the service prints a command", () => /^curl .*\n/m.test(session.screen()));
    session.type("\x03");
    expect(await session.exited()).toBe(0);
  });
});

describe("an install without dev dependencies", () => {
  /** Creates a folder with the sources, and with links to the packages that `npm ci --omit=dev` installs. */
  const newInstall = () => {
    const folder = newFolder();
    for (const name of [
      "LICENSE",
      "release.json",
      "package.json",
      "tsconfig.json",
      "scripts",
      "packages",
      "src",
      "gen",
    ]) {
      cpSync(`${ROOT}/${name}`, join(folder, name), { recursive: true });
    }
    const { packages } = JSON.parse(readFileSync(`${ROOT}/package-lock.json`, "utf8")) as {
      packages: { [path: string]: { dev?: boolean; optional?: boolean; devOptional?: boolean } };
    };
    for (const [path, { dev, devOptional }] of Object.entries(packages)) {
      const isInstalled = path.lastIndexOf("node_modules/") === 0;
      if (!isInstalled || dev || devOptional) continue;
      mkdirSync(dirname(join(folder, path)), { recursive: true });
      symlinkSync(`${ROOT}/${path}`, join(folder, path));
    }
    return folder;
  };

  it("starts with npm start", async () => {
    const url = await listens(newInstall(), "npm start", { API_TOKENS: "e=0123456789abcdef" });
    await useEveryScript(url, "0123456789abcdef");
  });

  it("builds", () => {
    const { PATH = "", HOME = "" } = process.env;
    const folder = newInstall();
    execFileSync("npm", ["run", "build"], { cwd: folder, env: { PATH, HOME }, stdio: "pipe" });
    expect(readFileSync(join(folder, "dist/main.js"), "utf8").length).toBeGreaterThan(1000);
  });
});
