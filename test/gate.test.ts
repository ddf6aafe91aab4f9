import { spawnSync } from "node:child_process";
import { cpSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { newFolder } from "@user-group-service/testing/opened";
import { ROOT } from "@user-group-service/testing/process";
import { expect, it } from "vitest";

it("the gate rejects protos that are incompatible with the released protos", () => {
  const command = /^buf breaking .*$/m.exec(readFileSync(`${ROOT}/scripts/check.sh`, "utf8"))?.[0] ?? "";
  const folder = newFolder();
  for (const name of ["proto", "buf.yaml"]) cpSync(`${ROOT}/${name}`, join(folder, name), { recursive: true });
  const path = join(folder, "proto/usergroup/v1/viewer_service.proto");
  const original = readFileSync(path, "utf8");
  const withText = (text: string, instead: string) => {
    expect(original).toContain(text);
    writeFileSync(path, original.replace(text, instead));
    const env = { ...process.env, PATH: `${ROOT}/node_modules/.bin:${process.env["PATH"]}` };
    const { status, stdout } = spawnSync("sh", ["-c", command], { cwd: folder, env, encoding: "utf8" });
    return { status, stdout };
  };
  expect(withText("message ResolveViewerRequest {", "message Added {}\nmessage ResolveViewerRequest {").status).toBe(0);
  const { status, stdout } = withText("string token = 1", "bytes token = 1");
  expect(status).not.toBe(0);
  expect(stdout).toMatch(/"token".*changed type from "string" to "bytes"/);
});

it("the gate refuses a phrase of scripts/words.txt, even across two lines of a comment", () => {
  const folder = newFolder();
  for (const name of ["check-words.js", "words.txt"]) cpSync(`${ROOT}/scripts/${name}`, join(folder, "scripts", name));
  spawnSync("git", ["init", "--quiet"], { cwd: folder });
  const phrase = ["under", "way"];
  const check = (text: string) => {
    writeFileSync(join(folder, "file.ts"), text);
    const { status, stderr } = spawnSync("node", ["scripts/check-words.js"], { cwd: folder, encoding: "utf8" });
    return [status, stderr.includes("file.ts:2: ")];
  };
  expect(check(`// One\n// two, calls ${phrase.join("\n// ")}.\n`)).toEqual([1, true]);
  expect(check("// One\n// two, calls in flight.\n")).toEqual([0, false]);
});
