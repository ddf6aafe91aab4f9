import { execFile } from "node:child_process";
import { cpSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, it } from "vitest";
import { blocksOf } from "../support/documents.ts";
import { orLeaveOut } from "../support/on-path.ts";
import { newFolder, newServer } from "../support/opened.ts";
import { ROOT } from "../support/process.ts";

const run = promisify(execFile);
const hasGo = orLeaveOut("go", "the client in Go is") !== undefined;

it.skipIf(!hasGo)("the client in Go of docs/api.md calls the service, and reads why a call fails", async () => {
  const server = await newServer();
  const folder = newFolder();
  cpSync(`${ROOT}/proto`, join(folder, "proto"), { recursive: true });
  const [template, program, build, ...others] = blocksOf("docs/api.md", "Go").map(({ code }) => code);
  expect(others).toEqual([]);
  writeFileSync(join(folder, "buf.gen.yaml"), template ?? "");
  writeFileSync(join(folder, "main.go"), program?.replace("http://127.0.0.1:8080", server.url) ?? "");
  // Go's own environment, for its caches.
  const PATH = `${ROOT}/node_modules/.bin:${process.env["PATH"]}`;
  const shell = (code: string, apiToken = "") =>
    run("sh", ["-ec", code], { cwd: folder, env: { ...process.env, PATH, API_TOKEN: apiToken } });

  const { stdout } = await shell(build ?? "", server.tokens.customer);
  expect(stdout).toMatch(/^true acme ugt_\w+\n$/);
  // Nothing that an official package registers too, such as the one that decodes the details of errors.
  expect(readdirSync(join(folder, "gen"))).toEqual(["usergroup"]);
  await expect(shell("./client", "ugk_unknown")).rejects.toMatchObject({
    code: 1,
    stdout: expect.stringMatching(/^unauthenticated.*API_TOKEN_\w+\n$/),
    stderr: "",
  });
});
