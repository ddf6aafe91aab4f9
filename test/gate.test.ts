import { spawnSync } from "node:child_process";
import { cpSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { newFolder } from "@user-group-service/testing/opened";
import { ROOT } from "@user-group-service/testing/process";
import { expect, it } from "vitest";

it("the gate refuses protos that break with the released ones", () => {
  const command = /^buf breaking .*$/m.exec(readFileSync(`${ROOT}/scripts/check.sh`, "utf8"))?.[0] ?? "";
  const folder = newFolder();
  for (const name of ["proto", "buf.yaml"]) cpSync(`${ROOT}/${name}`, join(folder, name), { recursive: true });
  const path = join(folder, "proto/usergroup/v1/viewer_service.proto");
  const original = readFileSync(path, "utf8");
  /** What buf says of the protos with a text of one in place of another. */
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
