import { execFile, execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { newFolder, newProcess } from "@user-group-service/testing/opened";
import { ROOT, startProcess } from "@user-group-service/testing/process";
import { RUNTIMES } from "@user-group-service/testing/runtime";
import { freePort, waitFor } from "@user-group-service/testing/wait";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { followsEvents } from "../../../test/support/follows-events.ts";
import { newServer, redisUrl } from "../../../test/support/opened.ts";
import { pythonPrograms } from "../../../test/support/python.ts";
import { CALLS, restartUnder, TIMEOUT_MS } from "../../../test/support/restarts.ts";

const PACKAGE = join(import.meta.dirname, "..");
const read = (name: string) => readFileSync(join(PACKAGE, name), "utf8");
const run = promisify(execFile);
const programs = pythonPrograms("client-python", join(PACKAGE, "requirements.txt"), "the client in Python is") ?? "";

/**
 * Returns the code blocks of the README in a language. All `python` blocks form one program. Each `py` block is a
 * separate program.
 */
const blocks = (language: string) =>
  [...read("README.md").matchAll(/^```(\w+)\n(.*?)^```$/gms)].flatMap(([, its, code = ""]) =>
    its === language ? [code] : [],
  );
const readme = blocks("python").join("\n");

const answers = (url: string) =>
  fetch(url).then(
    ({ ok }) => ok,
    () => false,
  );

describe.skipIf(programs === "")("the client in Python", () => {
  // The wheel is installed outside of the repository, so that Python cannot import the sources.
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

  it("contains code generated from the current protos", async () => {
    const made = newFolder();
    const PATH = `${programs}:${ROOT}/node_modules/.bin:${process.env["PATH"]}`;
    const args = ["generate", "--template", join(PACKAGE, "buf.gen.yaml"), "--output", made];
    await run("buf", args, { cwd: ROOT, env: { ...process.env, PATH } });
    const path = "packages/client-python/src/user_group_service/gen";
    await run("diff", ["--recursive", "--exclude=__pycache__", join(ROOT, path), join(made, path)]);
  });

  it("the Python client passes its Python tests", async () => {
    const args = ["-W", "error", "-m", "unittest", "discover", "--start-directory", join(PACKAGE, "test")];
    await run(python, args, { cwd: folder, env: { ...process.env, PYTHONDONTWRITEBYTECODE: "1" } });
  });

  it.each(RUNTIMES)("the Python client runs the program of its README, with a service on %s", async (runtime) => {
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

  it("the Python client runs the back end of its README, which creates and verifies viewer sessions", async () => {
    const server = await newServer();
    const port = await freePort();
    const [code = ""] = blocks("py").filter((block) => block.includes("make_server("));
    const program = code
      .replaceAll("http://127.0.0.1:8080", server.url)
      .replaceAll("/e/dev/", `/e/${server.environment}/`)
      .replaceAll("8000", String(port));
    writeFileSync(join(folder, "page.py"), program);
    const env = { ...process.env, API_TOKEN: server.tokens.customer };
    newProcess(startProcess([python, join(folder, "page.py")], { cwd: folder, env }));
    const url = `http://127.0.0.1:${port}`;
    await waitFor("the back end of the README answers", () => answers(url));
    const made = await fetch(`${url}/viewer-session`, { method: "POST" });
    const { session } = (await made.json()) as { session: string };
    const shown = async (text: string) => {
      const answer = await fetch(`${url}/dashboard`, { headers: { authorization: `Bearer ${text}` } });
      return [answer.status, await answer.text()];
    };
    expect(await shown(session)).toEqual([200, "acme bob"]);
    expect((await shown(`${session}A`))[0]).toBe(401);
  });

  it.each(["sync", "gthread", "gevent"])(
    "works in %s workers of gunicorn, also if gunicorn forks them after the creation of the client",
    async (kind) => {
      const server = await newServer();
      const env = {
        ...process.env,
        PATH: `${programs}:${process.env["PATH"]}`,
        PYTHONPATH: `${join(PACKAGE, "src")}:${join(PACKAGE, "test")}`,
        PYTHONDONTWRITEBYTECODE: "1",
        URL: server.url,
        ISSUER: `${server.url}/e/${server.environment}/Customer`,
        API_TOKEN: server.tokens.customer,
      };
      const group = { headers: { authorization: `Token ${server.tokens.customer}` } };
      await fetch(`${server.url}/api/user?user_group_id=acme`, group);
      for (const more of [{}, { args: ["--preload"] }, { args: ["--preload"], env: { CALLS_BEFORE_FORK: "1" } }]) {
        const port = await freePort();
        const args = ["-k", kind, "-w", "2", "--threads", "4", "--no-control-socket", "-b", `127.0.0.1:${port}`];
        const gunicorn = newProcess(
          startProcess([join(programs, "gunicorn"), ...args, ...(more.args ?? []), "preloaded:application"], {
            cwd: folder,
            env: { ...env, ...more.env },
          }),
        );
        const url = `http://127.0.0.1:${port}/`;
        await waitFor("a worker of gunicorn answers", () => answers(url));
        const shown = Array.from({ length: 40 }, async () => (await fetch(url)).text());
        expect(new Set(await Promise.all(shown)), JSON.stringify(more)).toEqual(new Set(["bob"]));
        await gunicorn.stop();
      }
    },
  );

  it("lets a program with asyncio exit without an error or warning", async () => {
    const server = await newServer();
    const program = join(folder, "with_asyncio.py");
    const imports = "import os\nfrom user_group_service import GetUserGroupRequest\n";
    const [code = ""] = blocks("python").filter((block) => block.includes("AsyncClient("));
    writeFileSync(program, imports + code.replaceAll("http://127.0.0.1:8080", server.url));
    const env = { ...process.env, API_TOKEN: server.tokens.customer };
    for (let i = 0; i < 10; i++) await run(python, ["-W", "error", program], { cwd: folder, env });
  });

  it.skipIf(redisUrl === undefined)(`loses none of ${CALLS} calls while the service restarts`, async () => {
    const failures = await restartUnder(({ url, token }) => {
      const args = [python, join(PACKAGE, "test/steady.py"), url, String(TIMEOUT_MS)];
      const calls = newProcess(startProcess(args, { env: { ...process.env, API_TOKEN: token } }));
      return {
        answered: () => calls.output().match(/^ok$/gm)?.length ?? 0,
        end: async () => {
          calls.endInput();
          expect(await calls.exited()).toBe(0);
          return calls.output().match(/^(?!ok$).+$/gm) ?? [];
        },
      };
    });
    expect(failures).toEqual([]);
  });

  it.skipIf(redisUrl === undefined).each(["sync", "async"])(
    "follows events over a restart of the service, until the API token is revoked (%s)",
    async (kind) => {
      await followsEvents((url, token) => {
        const args = [python, "-W", "error", join(PACKAGE, "test/watch.py"), url, kind];
        return newProcess(startProcess(args, { env: { ...process.env, API_TOKEN: token } }));
      });
    },
  );

  it("has types that mypy and pyright accept, and both report a wrong call", async () => {
    const mypy = join(programs, "mypy");
    // Other tests copy the packages at the same time, so do not create temporary files in the packages.
    const own = run(mypy, ["--cache-dir", join(folder, "own-cache"), "src"], { cwd: PACKAGE });
    // mypy must accept the code of the README, and report only the wrong call in the last line.
    writeFileSync(
      join(folder, "checked.py"),
      `${[readme, ...blocks("py")].join("\n")}\nClient("http://a.example", 1)\n`,
    );
    const args = ["--strict", "--python-executable", python, "--cache-dir", join(folder, "cache"), "checked.py"];
    await expect(run(mypy, args, { cwd: folder })).rejects.toMatchObject({
      stdout: expect.stringMatching(/^checked.py:\d+: error: Argument 2 to "Client" .*\nFound 1 error /),
    });
    await own;
    // Code that passes mypy can fail in pyright.
    const byPyright = ["--pythonpath", python, join(folder, "checked.py")];
    await expect(run(join(programs, "pyright"), byPyright, { cwd: folder })).rejects.toMatchObject({
      stdout: expect.stringMatching(/checked.py:\d+:\d+ - error: Argument of type .*(?:\n.*)*\n1 error, /),
    });
    await run(join(programs, "pyright"), ["--pythonpath", python, "src"], { cwd: PACKAGE });
  });
});
