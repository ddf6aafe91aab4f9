import { execFile, execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { newFolder } from "@user-group-service/testing/opened";
import { ROOT } from "@user-group-service/testing/process";
import { RUNTIMES } from "@user-group-service/testing/runtime";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { newServer } from "../../../test/support/opened.ts";
import { pythonPrograms } from "../../../test/support/python.ts";

const PACKAGE = join(import.meta.dirname, "..");
const read = (name: string) => readFileSync(join(PACKAGE, name), "utf8");
const run = promisify(execFile);
const programs = pythonPrograms("client-python", join(PACKAGE, "requirements.txt"), "the client in Python is") ?? "";

/** The README's blocks of code in Python, as one program. */
const readme = [...read("README.md").matchAll(/^```python\n(.*?)^```$/gms)].map(([, code]) => code).join("\n");

describe.skipIf(programs === "")("the client in Python", () => {
  // The wheel, installed in an environment of its own outside of the repository.
  const folder = mkdtempSync(join(tmpdir(), "ugs-python-"));
  const python = join(folder, "installed/bin/python");

  beforeAll(() => {
    const execute = (...[program, ...args]: [string, ...string[]]) =>
      execFileSync(join(programs, program), args, { cwd: folder, stdio: ["ignore", "pipe", "inherit"] });
    execute("pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, PACKAGE);
    execute("python", "-m", "venv", "--without-pip", join(folder, "installed"));
    const wheel = join(folder, "user_group_service_client-0.1.0-py3-none-any.whl");
    execute("pip", "--python", python, "install", "--quiet", "--no-compile", "--disable-pip-version-check", wheel);
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  it("is generated from the protos as they are", async () => {
    const made = newFolder();
    const PATH = `${programs}:${ROOT}/node_modules/.bin:${process.env["PATH"]}`;
    const args = ["generate", "--template", join(PACKAGE, "buf.gen.yaml"), "--output", made];
    await run("buf", args, { cwd: ROOT, env: { ...process.env, PATH } });
    const path = "packages/client-python/src/user_group_service/gen";
    await run("diff", ["--recursive", "--exclude=__pycache__", join(ROOT, path), join(made, path)]);
  });

  it("tries again, reads errors and verifies sessions", async () => {
    const args = ["-W", "error", "-m", "unittest", "discover", "--start-directory", join(PACKAGE, "test")];
    await run(python, args, { cwd: folder, env: { ...process.env, PYTHONDONTWRITEBYTECODE: "1" } });
  });

  it.each(RUNTIMES)("does what its README shows, with a service on %s", async (runtime) => {
    const server = await newServer({ runtime });
    const issuer = `${server.url}/e/${server.environment}/Customer`;
    const program = readme
      .replaceAll("http://127.0.0.1:8080/e/dev/Customer", issuer)
      .replaceAll("http://127.0.0.1:8080", server.url);
    const file = join(folder, "readme.py");
    writeFileSync(file, program);
    const env = { ...process.env, API_TOKEN: server.tokens.customer };
    const { stdout } = await run(python, ["-W", "error", file], { cwd: folder, env });
    expect(stdout.trim().split("\n")).toEqual([
      expect.stringMatching(/^ey[\w-]+\.[\w-]+\.[\w-]+$/),
      "acme bob gold",
      "acme Acme",
      "Code.NOT_FOUND USER_GROUP_NOT_FOUND {}",
      "False",
      "customer manage",
    ]);
  });

  it("has types", async () => {
    const mypy = join(programs, "mypy");
    // Other tests copy the packages meanwhile: what comes and goes there would be gone before they have it.
    const own = run(mypy, ["--cache-dir", join(folder, "own-cache"), "src"], { cwd: PACKAGE });
    // Those of the wheel, for which its users' checkers look: the README is right by them, and a mistake is not.
    writeFileSync(join(folder, "checked.py"), `${readme}\nClient("http://a.example", 1)\n`);
    const args = ["--strict", "--python-executable", python, "--cache-dir", join(folder, "cache"), "checked.py"];
    await expect(run(mypy, args, { cwd: folder })).rejects.toMatchObject({
      stdout: expect.stringMatching(/^checked.py:\d+: error: Argument 2 to "Client" .*\nFound 1 error /),
    });
    await own;
  });
});
