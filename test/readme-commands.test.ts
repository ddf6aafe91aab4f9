import { execFile } from "node:child_process";
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { codeOf, type Document, rowsOf } from "./support/documents.ts";
import { closeLater, newRedis, redisUrl, suiteServer } from "./support/opened.ts";
import { descendants, ROOT, startProcess, waitUntilSaid } from "./support/process.ts";

const run = promisify(execFile);

const ADMIN_TOKEN = "root-of-the-readme-0001";

/** The only block of a section that holds a text. */
function block(document: Document, section: string, text: string): string {
  const found = ["sh", "ts"].flatMap((language) => codeOf(document, section, language));
  const [code, ...others] = found.filter((each) => each.includes(text));
  if (code === undefined || others.length > 0)
    throw new Error(`not one block of ${document}, ${section} holds ${text}`);
  return code;
}

describe("the commands that call the service", () => {
  const server = suiteServer({ env: { ADMIN_TOKEN } });
  let folder: string;
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), "ugs-readme-"));
    for (const name of ["gen", "node_modules", "package.json"]) symlinkSync(`${ROOT}/${name}`, join(folder, name));
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  const here = (code: string) => code.replaceAll("http://127.0.0.1:8080", server.url);
  /** What a block prints on standard output when it is pasted into a shell. */
  const paste = async (code: string) => {
    const { PATH = "", HOME = "" } = process.env;
    const env = { PATH, HOME, API_TOKEN: server.tokens.customer, ADMIN_TOKEN };
    return (await run("sh", ["-ec", here(code)], { cwd: folder, env })).stdout;
  };
  const get = () => block("README.md", "Call it", '/api/user?user_group_id=acme&name=Acme"');

  it("create, change and rotate by REST", async () => {
    expect(JSON.parse(await paste(get()))).toMatchObject({ success: 1, user_group: { name: "Acme" } });
    const put = JSON.parse(await paste(block("docs/api.md", "REST", "-X PUT")));
    expect(put).toMatchObject({ success: 1, user_group: { name: "Acme", properties: { plan: "gold" } } });
    const post = JSON.parse(await paste(block("docs/api.md", "REST", "-X POST")));
    expect(post.user_group.token).toMatch(/^ugt_/);
    expect(post.user_group.token).not.toBe(put.user_group.token);
    const form = block("docs/api.md", "REST", "-X POST").replace(
      '-H "Content-Type: application/json" ',
      "-w ' %{http_code}' ",
    );
    expect(await paste(form)).toMatch(/UNSUPPORTED_MEDIA_TYPE.*\n 415$/);
  });

  it("resolve a token by Connect", async () => {
    await paste(get());
    expect(JSON.parse(await paste(block("README.md", "Call it", "ResolveViewer")))).toMatchObject({
      providedId: "acme",
    });
  });

  it("call by gRPC", async () => {
    const answer = JSON.parse(await paste(block("README.md", "Call it", "npx buf curl")));
    expect(answer).toMatchObject({ userGroup: { providedId: "acme" } });
  });

  it("run the client in TypeScript on this Node", async () => {
    await paste(get());
    writeFileSync(join(folder, "client.ts"), here(block("docs/api.md", "Clients", "createGrpcTransport")));
    expect(await paste(block("docs/api.md", "Clients", "npx esbuild client.ts"))).toMatch(/^false Acme ugt_\w+\n$/);
  });

  it("make an environment and an API token", async () => {
    const answers = await paste(block("README.md", "Call it", "CreateApiToken"));
    expect(answers).toMatch(/"role":"ROLE_MANAGE".*"token":"ugk_\w{38}"/);
  });

  it("and no others are there", () => {
    expect(codeOf("README.md", "Call it", "sh")).toHaveLength(4);
    expect(codeOf("docs/api.md", "REST", "sh")).toHaveLength(2);
    expect(codeOf("docs/api.md", "Clients", "sh")).toHaveLength(1);
    expect(codeOf("docs/api.md", "Clients", "ts")).toHaveLength(1);
  });

  it("the table of metrics has every series of ours, and no other", async () => {
    await paste(get());
    const text = await (await fetch(`${server.url}/metrics`)).text();
    const exposed = [...text.matchAll(/^# TYPE (\S+) (\S+)$/gm)]
      .map(([, name = "", type = ""]) => [name, type])
      .filter(([name]) => !/^(process|nodejs)_/.test(name ?? ""));
    const documented = rowsOf("docs/operations.md", "Metrics").filter(([, type = ""]) =>
      /^(counter|gauge|histogram)$/.test(type),
    );
    expect(documented.map(([name, type]) => [name, type]).sort()).toEqual(exposed.sort());
  });
});

it.skipIf(redisUrl === undefined)("the commands that start it with a real Redis do", async () => {
  // One of its own, for these commands make keys that those of the other tests are not.
  const redis = await newRedis();
  const code = block("README.md", "Run", "REDIS_URL=").replace("redis://127.0.0.1:6379", redis.url);
  const shell = startProcess(["sh", "-ec", code], { env: { PORT: "0" } });
  closeLater(async () => {
    for (const pid of descendants(shell.pid)) process.kill(pid, "SIGTERM");
    await shell.exited();
  });
  await waitUntilSaid(shell, "it listens", (output) => output.includes('"msg":"listening"'));
});
