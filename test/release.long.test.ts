import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onPath, orLeaveOut } from "@user-group-service/testing/on-path";
import { newFolder } from "@user-group-service/testing/opened";
import { ROOT } from "@user-group-service/testing/process";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { parse } from "yaml";

const programs = ["helm", "python3", "go"].map((program) => orLeaveOut(program, "the tests of a release are"));
const terraform = onPath("tofu") ?? orLeaveOut("terraform", "the test of the Terraform provider of a release is");
const { version } = JSON.parse(readFileSync(`${ROOT}/package.json`, "utf8")) as { version: string };
const names = JSON.parse(readFileSync(`${ROOT}/release.json`, "utf8")) as {
  readonly goModule: string;
  readonly terraformModule: string;
  readonly terraformProvider: string;
};

const PLATFORMS = [`${process.platform}/${process.arch.replace("x64", "amd64")}`, "windows/arm64"];

/** The names of a fork. Only the Go modules and the Terraform provider keep the names of this repository. */
const FORK = {
  repository: "https://git.example.org/acme/groups",
  npm: { service: "@acme/groups", client: "@acme/groups-client", transport: "@acme/transport" },
  pypi: "acme-groups-client",
  goModule: names.goModule,
  terraformModule: names.terraformModule,
  terraformProvider: names.terraformProvider,
  chart: "acme-groups",
  image: "registry.example.org/acme/groups",
};

describe.skipIf(programs.includes(undefined))("npm run release with the names of a fork", () => {
  const release = mkdtempSync(join(tmpdir(), "ugs-release-"));
  const filesOf = (pattern: RegExp) => readdirSync(release).filter((name) => pattern.test(name));
  const only = (pattern: RegExp) => {
    const found = filesOf(pattern);
    expect(found).toHaveLength(1);
    return join(release, found[0] ?? "");
  };
  const run = (cwd: string, program: string, ...args: string[]) =>
    execFileSync(program, args, { cwd, encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] });

  beforeAll(() => {
    const file = `${release}.json`;
    writeFileSync(file, JSON.stringify(FORK));
    // The first compilation takes half a minute per platform, so the test builds for only two platforms.
    run(ROOT, "node", "scripts/release.js", release, file, PLATFORMS.join());
    rmSync(file);
  }, 600_000);
  afterAll(() => rmSync(release, { recursive: true }));

  it("writes checksums of all files, and refuses a folder that is not empty", () => {
    expect(run(release, "sha256sum", "--check", "SHA256SUMS").match(/: OK$/gm)).toHaveLength(12);
    const { status, stderr } = spawnSync("node", ["scripts/release.js", release], { cwd: ROOT, encoding: "utf8" });
    expect([status, stderr]).toEqual([1, expect.stringContaining("is not empty")]);
  });

  it("builds npm packages that install without the repository, and name the repository of the fork", () => {
    const folder = newFolder();
    writeFileSync(join(folder, "package.json"), "{}\n");
    const tarballs = filesOf(/^acme-.*\.tgz$/).map((name) => join(release, name));
    expect(tarballs).toHaveLength(3);
    run(folder, "npm", "install", "--silent", "--no-audit", "--no-fund", "--prefer-offline", ...tarballs);
    expect(run(folder, "npx", "@acme/groups", "--version")).toBe(`${version}\n`);
    expect(run(folder, "npx", "ugs", "--version")).toBe(`${version}\n`);
    for (const name of Object.values(FORK.npm)) {
      const files = join(folder, "node_modules", name);
      expect(JSON.parse(readFileSync(join(files, "package.json"), "utf8"))).toMatchObject({
        ...{ name, version, license: "Apache-2.0" },
        repository: { type: "git", url: `git+${FORK.repository}.git` },
      });
      const readme = readFileSync(join(files, "README.md"), "utf8");
      for (const [, link = ""] of readme.matchAll(/\]\(([^)]+)\)/g)) expect(link).toMatch(/^(https?:\/\/|#)/);
      expect(readme).not.toContain("@user-group-service/client");
      expect(readdirSync(files)).toContain("LICENSE");
    }
    for (const name of [FORK.npm.client, FORK.npm.transport])
      run(folder, "node", "--input-type=module", "-e", `await import("${name}")`);
  });

  it.each([/\.whl$/, /\.tar\.gz$/])("builds a Python client that installs from the file %s", (pattern) => {
    const folder = newFolder();
    run(folder, "python3", "-m", "venv", "venv");
    run(folder, "venv/bin/pip", "install", "--quiet", "--disable-pip-version-check", only(pattern));
    const program = `from importlib.metadata import version; import user_group_service; print(version("${FORK.pypi}"))`;
    expect(run(folder, "venv/bin/python", "-c", program)).toBe(`${version}\n`);
  });

  it("packs a chart that renders without the repository, and names the published image", () => {
    const yaml = run(release, "helm", "template", "ugs", only(/^chart-acme-groups-/), "--kube-version", "1.37.0");
    expect(yaml).toContain(`image: ${FORK.image}:${version}\n`);
  });

  it("builds the files and checksums that a Terraform registry requires", () => {
    const prefix = `terraform-provider-ugs_${version}_`;
    const zips = filesOf(/\.zip$/);
    expect(zips.sort()).toEqual(PLATFORMS.map((platform) => `${prefix}${platform.replace("/", "_")}.zip`).sort());
    const checked = run(release, "sha256sum", "--check", `${prefix}SHA256SUMS`);
    const listed = [...zips, `${prefix}manifest.json`];
    expect([...checked.matchAll(/^(.*): OK$/gm)].map(([, name]) => name)).toEqual(listed.sort());
    expect(JSON.parse(readFileSync(join(release, `${prefix}manifest.json`), "utf8"))).toEqual({
      version: 1,
      metadata: { protocol_versions: ["6.0"] },
    });
    for (const zip of zips) {
      const folder = newFolder();
      run(folder, "python3", "-m", "zipfile", "-e", join(release, zip), ".");
      const program = `terraform-provider-ugs_v${version}${zip.includes("windows") ? ".exe" : ""}`;
      expect(readdirSync(folder).sort()).toEqual(["LICENSE", program]);
      const [, os, arch] = /_([a-z]+)_([a-z0-9]+)\.zip$/.exec(zip) ?? [];
      const built = run(folder, "go", "version", "-m", program);
      expect(built).toContain(`GOOS=${os}\n`);
      expect(built).toContain(`GOARCH=${arch}\n`);
    }
  });

  it.skipIf(terraform === undefined)(
    "installs the Terraform provider from its zip file, as its README describes",
    () => {
      const readme = readFileSync(`${ROOT}/packages/terraform-provider/README.md`, "utf8");
      const install =
        /^```sh\n(mkdir .*?)^```$/ms.exec(readme)?.[1] ??
        expect.fail("the README has no commands for the installation");
      const platform = `${process.platform}_${process.arch.replace("x64", "amd64")}`;
      const home = newFolder();
      run(release, "sh", "-ec", install.replaceAll("~/", `${home}/`).replace("linux_amd64", platform));
      const folder = newFolder();
      writeFileSync(join(folder, "main.tf"), /^terraform \{\n.*?^\}\n/ms.exec(readme)?.[0] ?? "");
      const env = { PATH: process.env["PATH"], HOME: home, CHECKPOINT_DISABLE: "1" };
      const output = (...args: string[]) =>
        execFileSync(terraform ?? "", args, { cwd: folder, env, encoding: "utf8", stdio: "pipe" });
      expect(output("init", "-no-color")).toContain(`${FORK.terraformProvider} v${version}`);
      expect(JSON.parse(output("providers", "schema", "-json"))).toMatchObject({
        provider_schemas: { [FORK.terraformProvider]: { resource_schemas: { ugs_api_token: expect.anything() } } },
      });
    },
  );

  it("lists the packages of the service in its SBOM, and no packages that only tests use", () => {
    const sbom = JSON.parse(readFileSync(join(release, "sbom.cdx.json"), "utf8")) as {
      readonly bomFormat: string;
      readonly metadata: { readonly component: { readonly name: string } };
      readonly components: readonly { readonly name: string }[];
    };
    expect([sbom.bomFormat, sbom.metadata.component.name]).toEqual(["CycloneDX", FORK.npm.service]);
    const components = new Set(sbom.components.map(({ name }) => name));
    const { dependencies } = JSON.parse(readFileSync(`${ROOT}/package.json`, "utf8")) as { dependencies: object };
    for (const name of [...Object.keys(dependencies), "commander", "preact"])
      expect(components).toContain(name.replace("@user-group-service/", ""));
    for (const name of ["vitest", "typescript", "testing"]) expect(components).not.toContain(name);
  });

  it("writes the tags of the service and of the Go modules, and each go.mod has the published module path", () => {
    expect(readFileSync(join(release, "TAGS"), "utf8")).toBe(
      [`v${version}`, `packages/client-go/v${version}`, `packages/terraform-provider/v${version}`, ""].join("\n"),
    );
    expect(readFileSync(`${ROOT}/packages/client-go/go.mod`, "utf8")).toContain(`module ${names.goModule}\n`);
    const provider = readFileSync(`${ROOT}/packages/terraform-provider/go.mod`, "utf8");
    expect(provider).toContain(`module ${names.terraformModule}\n`);
    expect(provider).toContain(`require ${names.goModule} v${version}\n`);
  });
});

describe("the workflow of a release", () => {
  const workflow = parse(readFileSync(`${ROOT}/.github/workflows/release.yml`, "utf8")) as {
    readonly permissions: object;
    readonly jobs: {
      readonly [name: string]: {
        readonly permissions: object;
        readonly steps: readonly { readonly run?: string; readonly uses?: string; readonly with?: object }[];
      };
    };
  };
  const steps = Object.values(workflow.jobs).flatMap((job) => job.steps);

  it("publishes every file, with a signature of the Terraform provider", () => {
    const text = steps.map(({ run }) => run ?? "").join("\n");
    expect(text).toMatch(/gh release create [^\n]*release\/\*$/m);
    expect(text).toContain("--detach-sign release/*_SHA256SUMS");
  });

  it("grants rights only to jobs, and attests the published files", () => {
    expect(workflow.permissions).toEqual({});
    expect(steps.map(({ uses }) => uses?.replace(/@.*/, ""))).toContain("actions/attest-build-provenance");
    expect(steps.find(({ run }) => run?.includes("npm publish"))?.run).toContain("--provenance");
    expect(steps.find(({ uses }) => uses?.startsWith("docker/build-push-action@"))?.with).toMatchObject({
      push: true,
      provenance: "mode=max",
      tags: `\${{ steps.image.outputs.tag }}`,
    });
  });
});
