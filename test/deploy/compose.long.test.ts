import { execFileSync, spawnSync } from "node:child_process";
import { cpSync, existsSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { http1 } from "@user-group-service/testing/http";
import { newFolder, newProcess } from "@user-group-service/testing/opened";
import { ROOT, startProcess, waitUntilSaid } from "@user-group-service/testing/process";
import { freePort } from "@user-group-service/testing/wait";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { SETTINGS } from "../../src/config/settings.ts";
import { readStages } from "../support/dockerfile.ts";
import { redisUrl } from "../support/opened.ts";
import { deployPrograms } from "../support/python.ts";
import { documentedRights } from "../support/rights.ts";

interface ComposeService {
  readonly environment?: { readonly [name: string]: string };
  readonly command?: readonly string[];
  readonly secrets: readonly string[];
  readonly healthcheck?: { readonly test: readonly [string, string] };
  readonly [name: string]: unknown;
}

const compose = parse(readFileSync(join(ROOT, "compose.yaml"), "utf8")) as {
  readonly services: { readonly service: ComposeService; readonly redis: ComposeService };
  readonly secrets: { readonly [name: string]: { readonly file: string } };
};
const { service, redis } = compose.services;

/** Copies make-secrets.sh to a new folder. `make` runs the script, which creates the secrets in `folder`. */
function newSecrets(): { folder: string; make: () => ReturnType<typeof spawnSync> } {
  const folder = newFolder();
  cpSync(join(ROOT, "deploy/compose/make-secrets.sh"), join(folder, "make-secrets.sh"));
  return { folder: join(folder, "secrets"), make: () => spawnSync("sh", [join(folder, "make-secrets.sh")]) };
}

const programs = deployPrograms();

describe("compose.yaml", () => {
  it.skipIf(programs === undefined)("conforms to the Compose specification", () => {
    const check = (file: string) => {
      const args = ["--builtin-schema", "vendor.compose-spec", file];
      return spawnSync(join(programs ?? "", "check-jsonschema"), args, { encoding: "utf8" });
    };
    const { status, stdout } = check(join(ROOT, "compose.yaml"));
    expect([status, stdout]).toEqual([0, "ok -- validation done\n"]);
    const wrong = join(newFolder(), "compose.yaml");
    writeFileSync(wrong, readFileSync(join(ROOT, "compose.yaml"), "utf8").replace("read_only:", "readonly:"));
    expect(check(wrong)).toMatchObject({ status: 1, stdout: expect.stringContaining("readonly") });
  });

  it("gives containers no capabilities, and reads secrets from the files that the script creates", () => {
    for (const each of [service, redis]) {
      expect(each).toMatchObject({ read_only: true, cap_drop: ["ALL"], security_opt: ["no-new-privileges:true"] });
      for (const name of each.secrets) {
        expect(compose.secrets[name]?.file).toBe(`deploy/compose/secrets/${name}`);
      }
    }
    const { folder, make } = newSecrets();
    expect(make().status).toBe(0);
    expect(statSync(folder).mode & 0o777).toBe(0o700);
    for (const name of Object.keys(compose.secrets)) {
      expect(existsSync(join(folder, name))).toBe(true);
      expect(statSync(join(folder, name)).mode & 0o777).toBe(0o444);
    }
    // A second run must not replace the keys.
    const before = readFileSync(join(folder, "token-keys"), "utf8");
    expect(make().status).toBe(1);
    expect(readFileSync(join(folder, "token-keys"), "utf8")).toBe(before);
  });

  it("gives the Redis user the ACL rules of docs/operations/redis.md", () => {
    const { folder, make } = newSecrets();
    make();
    const line = readFileSync(join(folder, "redis-users"), "utf8")
      .split("\n")
      .find((each) => each.includes(" on "));
    const [, , , digest, ...rights] = line?.split(" ") ?? [];
    expect(digest).toMatch(/^#[0-9a-f]{64}$/);
    expect(rights).toEqual(documentedRights());
  });

  it.skipIf(redisUrl === undefined)(
    "has settings that Redis accepts, and that the service accepts without a warning",
    async () => {
      const { folder, make } = newSecrets();
      make();
      const [redisPort, PORT] = [String(await freePort()), String(await freePort())];
      const here = (text: string) => text.replace("/run/secrets", folder);
      const command = (redis.command ?? []).map((word) => (word === "/data" ? newFolder() : here(word)));
      const store = newProcess(startProcess([...command, "--port", redisPort, "--bind", "127.0.0.1"]));
      await waitUntilSaid(store, "Redis is ready", (output) => output.includes("Ready to accept connections"));
      const [shell, test] = redis.healthcheck?.test ?? [];
      expect(shell).toBe("CMD-SHELL");
      execFileSync("sh", ["-c", (test ?? "").replace("redis-cli", `redis-cli -p ${redisPort}`)]);

      const settings = Object.entries(service.environment ?? {}).map(([name, value]) => {
        expect(Object.keys(SETTINGS)).toContain(name);
        return [name, here(value).replace("redis:6379", `127.0.0.1:${redisPort}`)];
      });
      const env = { ...Object.fromEntries(settings), PORT } as { [name: string]: string };
      const server = newProcess(startProcess([process.execPath, "dist/main.js"], { env }));
      await waitUntilSaid(server, "it is ready", (output) => output.includes('"msg":"listening"'));
      const token = readFileSync(join(folder, "admin-token"), "utf8").trim();
      const answer = await http1(`http://127.0.0.1:${PORT}`, "/usergroup.admin.v1.AdminService/CreateEnvironment", {
        method: "POST",
        headers: { authorization: `Token ${token}`, "content-type": "application/json" },
        body: '{"environment":{"name":"acme","tag":"API_ENVIRONMENT_TAG_CUSTOMER"}}',
      });
      expect(answer.status).toBe(200);
      expect(server.output()).not.toMatch(/"level":"(warn|error)"/);
      expect(await server.stop()).toBe(0);
      expect(await store.stop()).toBe(0);
    },
  );

  it("publishes the port that the image exposes, and mounts each file that a setting names", () => {
    const exposed = readStages(join(ROOT, "Dockerfile"))
      .at(-1)
      ?.instructions.find(({ name }) => name === "EXPOSE");
    expect(service["ports"]).toEqual([`127.0.0.1:8080:${exposed?.rest}`]);
    const files = Object.entries(service.environment ?? {}).filter(([name]) => name.endsWith("_FILE"));
    expect(files.length).toBeGreaterThan(0);
    for (const [, path] of files) expect(service.secrets).toContain(path.replace("/run/secrets/", ""));
  });
});
