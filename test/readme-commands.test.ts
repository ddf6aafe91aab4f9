import { cpSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { type Block, blocksOf, sectionsOf } from "@user-group-service/testing/documents";
import { closeLater, newFolder, newProcess } from "@user-group-service/testing/opened";
import { descendants, isRunning, ROOT, startProcess } from "@user-group-service/testing/process";
import { freePort, waitFor } from "@user-group-service/testing/wait";
import { expect, it } from "vitest";
import { newRedis, redisUrl } from "./support/opened.ts";

/** Other tests run the commands of these sections, because these commands install packages from a registry. */
const ELSEWHERE: ReadonlySet<string> = new Set(["Show a dashboard in a page", "OpenAPI"]);
function blocksIn(document: string): Block[] {
  const sections = ["", ...sectionsOf(document)].filter((section) => !ELSEWHERE.has(section));
  return sections.flatMap((section) => blocksOf(document, section)).filter(({ language }) => language === "sh");
}

function openShell(cwd: string, env: { readonly [name: string]: string }) {
  const shell = newProcess(startProcess(["sh"], { cwd, env }));
  closeLater(() => {
    for (const pid of descendants(shell.pid)) process.kill(pid, "SIGKILL");
  });
  let pasted = 0;
  let seen = 0;
  /** Pastes a block, and returns a function that finds the end of the block in the output. */
  function paste(code: string): () => RegExpExecArray | null {
    const end = new RegExp(`\nend ${++pasted}: (\\d+)\n`);
    seen = shell.output().length;
    shell.type(`${code}\nprintf '\\nend ${pasted}: %s\\n' $?\n`);
    return () => end.exec(shell.output().slice(seen));
  }
  const said = () => shell.output().slice(seen);
  let ended: (() => RegExpExecArray | null) | undefined;
  return {
    async run(code: string): Promise<string> {
      const found = await waitFor(`this command exits: ${code}`, paste(code));
      expect(found[1], said()).toBe("0");
      return said().slice(0, found.index);
    },
    /**
     * Stops the previous server, and starts the server of a block. Returns the output of the new server until it
     * listens.
     */
    async serve(code: string): Promise<string> {
      await this.stop();
      ended = paste(code);
      await waitFor(`this server is ready: ${code}`, () => {
        if (ended?.()) throw new Error(`it exited: ${said()}`);
        return said().includes('"msg":"listening"');
      });
      return said();
    },
    async stop(): Promise<void> {
      if (!ended) return;
      // A process may have exited already, because its parent or its child exited.
      for (const pid of descendants(shell.pid)) if (isRunning(pid)) process.kill(pid, "SIGINT");
      await waitFor("the server exits", ended);
      ended = undefined;
    },
  };
}

/** The expected output of the blocks, in order. */
const README: readonly RegExp[] = [
  /"msg":"listening"/,
  /^$/,
  /"success":1,.*"name":"Acme"/,
  /^$/,
  /"active":true,"sub":"acme".*"viewer_id":"bob"/,
  /"providedId":"acme"/,
  /"providedId": "acme"/,
  /^$/,
  /"msg":"listening"/,
  /"success":1,.*"new_user_group":true/,
  /node scripts\/build\.js/,
  /"msg":"listening"/,
];
const API: readonly RegExp[] = [
  /"success":1,.*"properties":{"plan":"free"}/,
  /"success":1,.*"name":"Acme".*"properties":{"plan":"gold"}/,
  /"success":1,.*"token":"ugt_\w+"/,
  /"success":1,"session":"eyJ/,
];

it.skipIf(redisUrl === undefined)("the blocks of the README and of docs/api.md work in order", async () => {
  const folder = newFolder();
  for (const name of [
    "LICENSE",
    "release.json",
    "gen",
    "package.json",
    "packages",
    "scripts",
    "src",
    "tsconfig.json",
  ]) {
    cpSync(`${ROOT}/${name}`, join(folder, name), { recursive: true });
  }
  symlinkSync(`${ROOT}/node_modules`, join(folder, "node_modules"));
  const port = await freePort();
  const { url } = await newRedis();
  const server = openShell(folder, { PORT: String(port), REDIS_TIMEOUT: "10s" });
  const caller = openShell(folder, {});
  let apiToken = "";
  /** Adapts a block to this test: replaces the port, the Redis URL and the API token, and removes `npm ci`. */
  const here = (code: string) =>
    code
      .replaceAll("127.0.0.1:8080", `127.0.0.1:${port}`)
      .replace("redis://127.0.0.1:6379", url)
      .replace(/^npm ci[^&]*&& /, "")
      .replace("ugk_...", apiToken);
  async function follow({ code }: Block): Promise<string> {
    if (!/(npm start|node dist\/main\.js)\n$/.test(code)) return caller.run(here(code));
    const output = await server.serve(here(code));
    apiToken = /"dev\/Customer":"(\w+)"/.exec(output)?.[1] ?? apiToken;
    return output;
  }
  for (const [document, expected] of [["README.md", README] as const, ["docs/api.md", API] as const]) {
    const blocks = blocksIn(document);
    expect(blocks).toHaveLength(expected.length);
    for (const [i, block] of blocks.entries()) {
      const output = await follow(block);
      expect(output, block.code).toMatch(expected[i] ?? "");
      expect(output, block.code).not.toMatch(/"success":0|"code":/);
    }
  }
  const form = blocksIn("docs/api.md")[2]?.code.replace('-H "Content-Type: application/json" ', "") ?? "";
  expect(form).not.toContain("Content-Type");
  expect(await caller.run(here(form))).toContain("UNSUPPORTED_MEDIA_TYPE");
  await server.stop();
});
