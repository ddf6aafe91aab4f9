import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { newProcess } from "@user-group-service/testing/opened";
import { ROOT, startProcess, waitUntilSaid } from "@user-group-service/testing/process";
import { denoRun, RUNTIMES } from "@user-group-service/testing/runtime";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

const PACKAGE = join(import.meta.dirname, "..");
const read = (name: string) => readFileSync(join(PACKAGE, name), "utf8");

/** The code blocks of the README. A block with a name is a file. The blocks of the language `sh` are commands. */
const blocks = [...read("README.md").matchAll(/^```(\w+) ?(\S*)\n(.*?)^```$/gms)];
const files = blocks.flatMap(([, , name = "", code = ""]) => (name === "" ? [] : [{ name, code }]));
const [install = "", calls = ""] = blocks.flatMap(([, language, , code = ""]) => (language === "sh" ? [code] : []));

/**
 * Packs the package, installs it with its peer dependencies as the README describes, and tests it without the rest of
 * this repository.
 */
describe("the installed package", () => {
  const folder = mkdtempSync(join(tmpdir(), "ugs-packed-"));
  const run = (command: string) =>
    execFileSync("sh", ["-e", "-c", command.replaceAll("npx ", "")], {
      cwd: folder,
      env: { PATH: `${ROOT}/node_modules/.bin:${process.env["PATH"]}`, HOME: process.env["HOME"] },
      encoding: "utf8",
      stdio: ["ignore", "pipe", "pipe"],
    });

  beforeAll(() => {
    const modules = join(folder, "node_modules");
    const { name, peerDependencies } = JSON.parse(read("package.json")) as {
      name: string;
      peerDependencies: { readonly [name: string]: string };
    };
    mkdirSync(join(modules, name), { recursive: true });
    execFileSync("npm", ["pack", "--pack-destination", folder], { cwd: PACKAGE, stdio: "pipe" });
    run(`tar -xzf *.tgz -C node_modules/${name} --strip-components 1`);
    for (const [peer, version] of Object.entries(peerDependencies)) expect(install).toContain(` ${peer}@${version}`);
    for (const installed of [...Object.keys(peerDependencies), "@types/node", "undici-types"]) {
      mkdirSync(dirname(join(modules, installed)), { recursive: true });
      symlinkSync(join(ROOT, "node_modules", installed), join(modules, installed));
    }
    writeFileSync(join(folder, "package.json"), '{ "type": "module" }\n');
    for (const { name, code } of files) writeFileSync(join(folder, name), code.replace("port: 8080", "port: 0"));
    run(install.split("\n").find((line) => line.startsWith("npx buf generate")) ?? "");
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  it.each(RUNTIMES)("serves the README's example on %s", async (runtime) => {
    const command = runtime === "node" ? [process.execPath] : denoRun(["-A"]);
    const server = newProcess(startProcess([...command, "server.js"], { cwd: folder }));
    const url = await waitUntilSaid(server, "the server listens", (output) => /listening on (\S+)/.exec(output)?.[1]);
    const output = run(calls.replaceAll("http://127.0.0.1:8080", url));
    expect(output.replace(/\s/g, "")).toBe('{"greeting":"Hello,Ada"}{"greeting":"Hello,Ada"}ok');
    const method = `${url}/hello.v1.HelloService/SayHello`;
    const curl = `buf curl --schema . --http2-prior-knowledge -d '{"name":"Bob"}' ${method}`;
    for (const protocol of ["connect", "grpc", "grpcweb"]) {
      const answer = run(`${curl} --protocol ${protocol} -H 'Authorization: Bearer secret'`);
      expect(JSON.parse(answer)).toEqual({ greeting: "Hello, Bob" });
      expect(() => run(`${curl} --protocol ${protocol}`)).toThrow("unauthenticated");
    }
    expect(await server.stop()).toBe(0);
  });

  it("has types that accept the README's example and reject mistakes", () => {
    const options = "--noEmit --allowJs --checkJs --strict --module nodenext --target es2023 --types node";
    const check = (code: string) => {
      writeFileSync(join(folder, "check.js"), code);
      return () => run(`tsc ${options} check.js >&2`);
    };
    const example = files.find(({ name }) => name === "server.js")?.code ?? "";
    check(example)();
    expect(check(example.replace("port: 8080", 'port: "8080"'))).toThrow("not assignable to type 'number'");
    expect(check(example.replace("server.drain()", "server.drained()"))).toThrow("drained");
  });
});
