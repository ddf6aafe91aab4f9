import { execFileSync, spawn } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, inject, it } from "vitest";
import { TOKEN_KEYS } from "./support/server.ts";
import { openTerminal } from "./support/terminal.ts";
import { waitFor } from "./support/wait.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const redisUrl = inject("redisUrl");

let folder: string;
const closers: (() => unknown)[] = [];
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "ugs-production-"));
});
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
  rmSync(folder, { recursive: true, force: true });
});

const { PATH = "", HOME = "" } = process.env;

/** Runs a command in the folder and waits until it listens; gives its URL. */
async function listens(command: string, env: { readonly [name: string]: string } = {}): Promise<string> {
  const child = spawn("sh", ["-c", `exec ${command}`], { cwd: folder, env: { PATH, HOME, PORT: "0", ...env } });
  const ended = new Promise((resolve) => child.once("close", resolve));
  closers.push(() => {
    child.kill("SIGTERM");
    return ended;
  });
  let text = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.on("data", (chunk: Buffer) => {
      text += chunk;
    });
  }
  return waitFor("it listens", () => {
    if (child.exitCode !== null) throw new Error(`it ended:\n${text}`);
    return /"url":"([^"]+)"[^\n]*"msg":"listening"/.exec(text)?.[1];
  });
}

/** Creates a group, changes it, rotates its token and resolves that: every script of the store. */
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
  beforeEach(() => cpSync(`${ROOT}/dist`, join(folder, "dist"), { recursive: true }));

  it("serves with the embedded store", async () => {
    const url = await listens(`${process.execPath} dist/main.js`, { API_TOKENS: `e=${API_TOKEN}` });
    await useEveryScript(url, API_TOKEN);
    expect(await (await fetch(`${url}/metrics`)).text()).toContain("process_resident_memory_bytes");
  });

  it.skipIf(redisUrl === undefined).each(["1", "2"])("serves with Redis and WORKERS=%s", async (WORKERS) => {
    const env = { API_TOKENS: `e=${API_TOKEN}`, REDIS_URL: redisUrl ?? "", TOKEN_KEYS, WORKERS };
    await useEveryScript(await listens(`${process.execPath} dist/main.js`, env), API_TOKEN);
  });

  it("greets on a terminal", async () => {
    const session = openTerminal(`${process.execPath} dist/main.js`, { cwd: folder, env: { PORT: "0" } });
    closers.push(() => session.close());
    await waitFor("there is a command to try", () => /^curl .*\n/m.test(session.screen()));
    session.type("\x03");
    expect(await session.exited()).toBe(0);
  });
});

describe("an install without what is for development alone", () => {
  /** What `npm ci --omit=dev` leaves, linked. */
  beforeEach(() => {
    for (const name of ["package.json", "scripts", "src", "gen"]) {
      cpSync(`${ROOT}/${name}`, join(folder, name), { recursive: true });
    }
    const { packages } = JSON.parse(readFileSync(`${ROOT}/package-lock.json`, "utf8")) as {
      packages: { [path: string]: { dev?: boolean; optional?: boolean; devOptional?: boolean } };
    };
    for (const [path, { dev, devOptional }] of Object.entries(packages)) {
      const isNested = path.lastIndexOf("node_modules/") > 0;
      if (path === "" || dev || devOptional || isNested) continue;
      mkdirSync(dirname(join(folder, path)), { recursive: true });
      symlinkSync(`${ROOT}/${path}`, join(folder, path));
    }
  });

  it("starts by npm start", async () => {
    const url = await listens("npm start", { API_TOKENS: "e=0123456789abcdef" });
    await useEveryScript(url, "0123456789abcdef");
  });

  it("builds", () => {
    execFileSync("npm", ["run", "build"], { cwd: folder, env: { PATH, HOME }, stdio: "pipe" });
    expect(readFileSync(join(folder, "dist/main.js"), "utf8").length).toBeGreaterThan(1000);
  });
});
