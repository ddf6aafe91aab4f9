import { execFile } from "node:child_process";
import { copyFileSync, cpSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { orLeaveOut } from "@user-group-service/testing/on-path";
import { newFolder, newProcess } from "@user-group-service/testing/opened";
import { ROOT, startProcess } from "@user-group-service/testing/process";
import { RUNTIMES } from "@user-group-service/testing/runtime";
import { describe, expect, it } from "vitest";
import { followsEvents } from "../support/follows-events.ts";
import { newServer, redisUrl } from "../support/opened.ts";
import { CALLS, restartUnder, TIMEOUT_MS } from "../support/restarts.ts";

const PACKAGE = join(ROOT, "packages/client-go");
const run = promisify(execFile);
const hasGo = orLeaveOut("go", "the client in Go is") !== undefined;

describe.skipIf(!hasGo)("the client in Go", () => {
  it("contains code generated from the current protos", async () => {
    const made = newFolder();
    const PATH = `${ROOT}/node_modules/.bin:${process.env["PATH"]}`;
    const args = ["generate", "--template", join(PACKAGE, "buf.gen.yaml"), "--output", made];
    await run("buf", args, { cwd: ROOT, env: { ...process.env, PATH } });
    await run("diff", ["--recursive", join(PACKAGE, "gen"), join(made, "packages/client-go/gen")]);
    await run("cmp", ["LICENSE", join(PACKAGE, "LICENSE")], { cwd: ROOT });
  });

  it("takes the Go names from release.json, so that a fork changes only this file", async () => {
    const made = newFolder();
    for (const path of [
      "packages/client-go",
      "packages/terraform-provider",
      "examples/go-net-http",
      "test/go",
      "proto",
      "buf.yaml",
      "release.json",
      "scripts/name-go-module.sh",
    ])
      cpSync(join(ROOT, path), join(made, path), { recursive: true });
    const PATH = `${ROOT}/node_modules/.bin:${process.env["PATH"]}`;
    const rename = `sed -i 's|"goModule": ".*"|"goModule": "go.example.org/ugs"|' release.json
      sed -i 's|"terraformModule": ".*"|"terraformModule": "go.example.org/provider"|' release.json
      sed -i 's|"terraformProvider": ".*"|"terraformProvider": "registry.example.org/acme/ugs"|' release.json
      bash scripts/name-go-module.sh
      buf generate --template packages/client-go/buf.gen.yaml
      (cd examples/go-net-http && go build -o back-end .)
      (cd packages/terraform-provider && go build -o provider . && rm provider)
      ! grep -rnF -e example.com/user-group-service/client-go -e example.com/user-group-service/terraform-provider \\
        -e registry.example.com/user-group-service/ugs packages examples test`;
    await run("bash", ["-ec", rename], { cwd: made, env: { ...process.env, PATH } });
  });

  it("passes the Go tests without a data race", async () => {
    expect((await run("gofmt", ["-l", "."], { cwd: PACKAGE })).stdout).toBe("");
    await run("go", ["mod", "tidy", "-diff"], { cwd: PACKAGE });
    await run("go", ["vet", "./..."], { cwd: PACKAGE });
    // The error of `run` contains only standard error, so the command prints the test report to standard error.
    await run("sh", ["-c", "go test -race -count=1 . >&2"], { cwd: PACKAGE });
  });

  it.skipIf(redisUrl === undefined)(
    `completes all ${CALLS} repeatable calls although the service restarts`,
    async () => {
      const folder = newFolder();
      copyFileSync(join(ROOT, "test/go/steady/main.go"), join(folder, "main.go"));
      const install = `go mod init example.com/steady
      go mod edit -replace=example.com/user-group-service/client-go=${PACKAGE}
      go mod edit -require=example.com/user-group-service/client-go@v0.0.0
      go mod tidy
      go build -o steady .`;
      await run("sh", ["-ec", install], { cwd: folder });
      const failures = await restartUnder(({ url, token }) => {
        const args = [join(folder, "steady"), url, `${TIMEOUT_MS}ms`];
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
    },
  );

  it.skipIf(redisUrl === undefined)(
    "receives events across a restart of the service, until the API token is revoked",
    async () => {
      const folder = newFolder();
      copyFileSync(join(ROOT, "test/go/watch/main.go"), join(folder, "main.go"));
      const install = `go mod init example.com/watch
      go mod edit -replace=example.com/user-group-service/client-go=${PACKAGE}
      go mod edit -require=example.com/user-group-service/client-go@v0.0.0
      go mod tidy
      go build -o watch .`;
      await run("sh", ["-ec", install], { cwd: folder });
      await followsEvents((url, token) =>
        newProcess(startProcess([join(folder, "watch"), url], { env: { ...process.env, API_TOKEN: token } })),
      );
    },
  );

  it.each(RUNTIMES)("the programs of the README run in another module, with a service on %s", async (runtime) => {
    const server = await newServer({ runtime });
    const folder = newFolder();
    const readme = readFileSync(join(PACKAGE, "README.md"), "utf8");
    const blocks = [...readme.matchAll(/^```(\w+)\n(.*?)^```$/gms)];
    const codeIn = (wanted: string) => blocks.flatMap(([, language, code = ""]) => (language === wanted ? [code] : []));
    const [program = "", pages = "", withCertificate = ""] = codeIn("go");
    const [install = "", token, start = ""] = codeIn("sh");
    expect(token).toMatch(/^export API_TOKEN=/);
    const mine = program
      .replace("http://127.0.0.1:8080/e/dev/Customer", `${server.url}/e/${server.environment}/Customer`)
      .replace("http://127.0.0.1:8080", server.url);
    writeFileSync(join(folder, "main.go"), mine);
    expect(withCertificate).toMatch(/^func clientWith/);
    writeFileSync(
      join(folder, "others.go"),
      `package main\n
import (
	"context"
	"crypto/tls"
	"net/http"
	"os"

	usergroups "example.com/user-group-service/client-go"
	adminv1 "example.com/user-group-service/client-go/gen/usergroup/admin/v1"
)

${pages}
${withCertificate}`,
    );
    const shell = (code: string, apiToken = server.tokens.customer) =>
      run("sh", ["-ec", code], { cwd: folder, env: { ...process.env, API_TOKEN: apiToken } });

    await shell(`go mod init example.com/mine\n${install.replace("../user-group-service", ROOT)}`);
    const { stdout } = await shell(start.replace("go run .", "go build -o mine . && ./mine"));
    expect(stdout).toMatch(/^ey[\w-]+\.[\w-]+\.[\w-]+\nacme bob gold\n$/);
    await expect(shell("./mine", "ugk_unknown")).rejects.toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/API_TOKEN_\w+ unauthenticated/),
    });
  });
});
