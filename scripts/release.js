// Builds all files of a release into an empty folder:
//
//   npm run release -- FOLDER [NAMES [PLATFORMS]]
//
// NAMES is the file with the published names. Default: release.json.
// PLATFORMS are the platforms of the Terraform provider, such as linux/amd64,windows/arm64. Default: all platforms. The
// first build for all platforms takes about three minutes.
//
// The script needs helm, python3 and go. python3 downloads packages from PyPI, and go downloads modules from the Go
// module proxy. The folder has no subfolders, because the web page of a release has none. So users can use SHA256SUMS
// to check the files that they download from this page.
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  copyFileSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const names = JSON.parse(readFileSync(process.argv[3] ?? join(ROOT, "release.json"), "utf8"));
const { version } = JSON.parse(read("package.json"));
const platforms = (
  process.argv[4] ?? "darwin/amd64,darwin/arm64,linux/amd64,linux/arm64,windows/amd64,windows/arm64"
).split(",");

const folder = resolve(process.argv[2] ?? "release");
mkdirSync(folder, { recursive: true });
if (readdirSync(folder).length > 0) fail(`${folder} is not empty: choose another folder, or empty this folder`);
for (const program of ["npm", "python3", "helm", "go"]) requireProgram(program);
requireSameVersions();

const staging = mkdtempSync(join(tmpdir(), "ugs-release-"));
try {
  run("npm", ["run", "--silent", "build"]);
  packNpm("service", "dist", "user-group-service");
  packNpm("client", "packages/client", "@user-group-service/client");
  packNpm("transport", "packages/transport", "@user-group-service/transport");
  buildPython();
  packChart();
  buildTerraformProvider();
  writeFileSync(join(folder, "sbom.cdx.json"), sbom());
  writeFileSync(
    join(folder, "TAGS"),
    `v${version}\npackages/client-go/v${version}\npackages/terraform-provider/v${version}\n`,
  );
  writeFileSync(join(folder, "SHA256SUMS"), checksums());
  process.stdout.write(readFileSync(join(folder, "SHA256SUMS")));
} finally {
  rmSync(staging, { recursive: true });
}

/**
 * Packs an npm package under its published name. Adds the repository to the manifest, because npm can prove the origin
 * of a package (provenance) only if its manifest contains the repository.
 *
 * @param key key of the package in release.json
 * @param name name of the package in this repository
 */
function packNpm(key, directory, name) {
  const packed = join(staging, key);
  mkdirSync(packed);
  run("npm", ["pack", "--silent", "--pack-destination", packed], join(ROOT, directory));
  run("tar", ["-xzf", readdirSync(packed)[0] ?? "", "-C", packed], packed);
  const content = join(packed, "package");
  const manifest = JSON.parse(readFileSync(join(content, "package.json"), "utf8"));
  delete manifest.scripts;
  const url = `git+${names.repository}.git`;
  const published = { ...manifest, name: names.npm[key], repository: { type: "git", url } };
  // npx runs the program with the same name as the package. So add a program with the published name.
  if (published.bin) published.bin[published.name.replace(/.*\//, "")] ??= published.bin[name];
  writeFileSync(join(content, "package.json"), `${JSON.stringify(published, undefined, 2)}\n`);
  cpSync(join(ROOT, "LICENSE"), join(content, "LICENSE"));
  // In the README of the service, do not replace the name of the package, because the name also stands for the image and
  // other objects.
  const readme =
    key === "service"
      ? withLinks(read("README.md"), "", name, name)
      : withLinks(read(`${directory}/README.md`), directory, name, names.npm[key]);
  writeFileSync(join(content, "README.md"), readme);
  run("npm", ["pack", "--silent", "--ignore-scripts", "--pack-destination", folder], content);
}

function buildPython() {
  const directory = "packages/client-python";
  const name = "user-group-service-client";
  const source = join(staging, "python");
  mkdirSync(source);
  cpSync(join(ROOT, directory, "src"), join(source, "src"), {
    recursive: true,
    filter: (path) => !path.endsWith("__pycache__"),
  });
  cpSync(join(ROOT, "LICENSE"), join(source, "LICENSE"));
  const project = read(`${directory}/pyproject.toml`);
  writeFileSync(join(source, "pyproject.toml"), project.replace(`name = "${name}"`, `name = "${names.pypi}"`));
  writeFileSync(join(source, "README.md"), withLinks(read(`${directory}/README.md`), directory, name, names.pypi));
  const environment = join(staging, "venv");
  run("python3", ["-m", "venv", environment]);
  const backend = /requires = \["([^"]+)"\]/.exec(project)?.[1] ?? fail("pyproject.toml names no build backend");
  run(join(environment, "bin/pip"), ["install", "--quiet", "--disable-pip-version-check", backend]);
  run(join(environment, "bin/hatchling"), ["build", "--directory", folder], source);
}

/**
 * Packs the Helm chart under its published name. The default image of the chart becomes the published image. The name
 * of the file starts with `chart-`, so that it differs from the file name of the npm package.
 */
function packChart() {
  const chart = join(staging, "chart", names.chart);
  cpSync(join(ROOT, "deploy/helm"), chart, { recursive: true });
  const replace = (file, before, after) => {
    const text = readFileSync(join(chart, file), "utf8");
    if (!text.includes(before)) fail(`deploy/helm/${file} does not contain "${before}"`);
    writeFileSync(join(chart, file), text.replace(before, after));
  };
  replace("Chart.yaml", "name: user-group-service", `name: ${names.chart}\nsources: [${names.repository}]`);
  replace("values.yaml", "repository: registry.example.com/user-group-service", `repository: ${names.image}`);
  run("helm", ["package", chart, "--destination", staging]);
  copyFileSync(join(staging, `${names.chart}-${version}.tgz`), join(folder, `chart-${names.chart}-${version}.tgz`));
}

function buildTerraformProvider() {
  const prefix = "terraform-provider-ugs";
  const program = join(staging, `${prefix}_v${version}`);
  const license = join(staging, "LICENSE");
  copyFileSync(join(ROOT, "LICENSE"), license);
  const flags = ["-trimpath", "-ldflags=-s -w", "-buildvcs=false"];
  for (const platform of platforms) {
    const [GOOS, GOARCH] = platform.split("/");
    const file = GOOS === "windows" ? `${program}.exe` : program;
    const env = { ...process.env, CGO_ENABLED: "0", GOOS, GOARCH };
    run("go", ["build", ...flags, "-o", file, "."], join(ROOT, "packages/terraform-provider"), env);
    // A zip file contains the times of its files. Set a fixed time, so that the same sources give the same checksum.
    for (const path of [file, license]) utimesSync(path, 2 ** 30, 2 ** 30);
    const zip = join(folder, `${prefix}_${version}_${GOOS}_${GOARCH}.zip`);
    run("python3", ["-m", "zipfile", "-c", zip, file, license]);
  }
  const manifest = { version: 1, metadata: { protocol_versions: ["6.0"] } };
  writeFileSync(join(folder, `${prefix}_${version}_manifest.json`), `${JSON.stringify(manifest, undefined, 2)}\n`);
  writeFileSync(join(folder, `${prefix}_${version}_SHA256SUMS`), checksums(`${prefix}_`));
}

/**
 * Returns a README in which the published name replaces the name of the package. Relative links become links to files
 * at the tag of the release.
 *
 * @param directory folder of the README in the repository
 * @param name name of the package in this repository
 */
function withLinks(text, directory, name, published) {
  const base = `${names.repository}/blob/v${version}/`;
  const named = text.replaceAll(name, published);
  return named.replace(
    /\]\((?!https?:|#)([^)\s]+)\)/g,
    (_, path) => `](${new URL(`${directory}/${path}`.replace(/^\//, ""), base)})`,
  );
}

/**
 * Returns the SBOM (CycloneDX) of the service. It lists the packages in the bundles, with the versions of the lock
 * file.
 */
function sbom() {
  const tree = join(staging, "sbom");
  for (const path of ["", ...["cli", "client", "console", "transport"].map((name) => `packages/${name}/`)]) {
    mkdirSync(join(tree, path), { recursive: true });
    const { devDependencies: _, ...manifest } = JSON.parse(read(`${path}package.json`));
    writeFileSync(join(tree, path, "package.json"), JSON.stringify(manifest));
  }
  cpSync(join(ROOT, "package-lock.json"), join(tree, "package-lock.json"));
  // `npm sbom --omit=dev` omits packages that both the service and a test tool need. So do not use this option. Remove
  // the test tools from the lock file instead.
  run("npm", ["install", "--silent", "--package-lock-only", "--ignore-scripts", "--offline", "--no-audit"], tree);
  const args = ["sbom", "--package-lock-only", "--sbom-format=cyclonedx", "--sbom-type=application"];
  const document = JSON.parse(run("npm", args, tree).toString());
  // `npm sbom` uses the name of the folder as the name of the component. Replace this name with the published name.
  document.metadata.component.name = names.npm.service;
  return `${JSON.stringify(document, undefined, 2)}\n`;
}

/** Returns checksums in the format of `sha256sum --check`. @param prefix start of the file names. Default: all files */
function checksums(prefix = "") {
  const files = readdirSync(folder).filter((name) => name.startsWith(prefix));
  const digest = (name) =>
    createHash("sha256")
      .update(readFileSync(join(folder, name)))
      .digest("hex");
  return files.map((name) => `${digest(name)}  ${name}\n`).join("");
}

/**
 * Requires that all packages have the same version, and that Go modules and the Terraform provider have the names in
 * release.json.
 */
function requireSameVersions() {
  const found = {
    "packages/client/package.json": JSON.parse(read("packages/client/package.json")).version,
    "packages/transport/package.json": JSON.parse(read("packages/transport/package.json")).version,
    "packages/transport/deno.json": JSON.parse(read("packages/transport/deno.json")).version,
    "packages/client-python/pyproject.toml": /^version = "(.*)"$/m.exec(
      read("packages/client-python/pyproject.toml"),
    )?.[1],
    "deploy/helm/Chart.yaml": /^version: (.*)$/m.exec(read("deploy/helm/Chart.yaml"))?.[1],
    "packages/terraform-provider/go.mod": /^require \S+ v(.*)$/m.exec(read("packages/terraform-provider/go.mod"))?.[1],
    Dockerfile: /^ARG VERSION=(.*)$/m.exec(read("Dockerfile"))?.[1],
  };
  for (const [file, its] of Object.entries(found))
    if (its !== version) fail(`${file} has version ${its}, but package.json has ${version}: set the same version`);
  if (!names.terraformProvider.endsWith("/ugs"))
    fail("terraformProvider in release.json must end in /ugs, because the names of its resources start with ugs_");
  const paths = {
    "packages/client-go/go.mod": [/^module (.*)$/m, names.goModule],
    "packages/terraform-provider/go.mod": [/^module (.*)$/m, names.terraformModule],
    "packages/terraform-provider/main.go": [/^const address = "(.*)"$/m, names.terraformProvider],
  };
  for (const [file, [pattern, published]] of Object.entries(paths)) {
    const path = pattern.exec(read(file))?.[1];
    if (path !== published)
      fail(`${file} has the name ${path}, but release.json has ${published}: run npm run generate:clients`);
  }
}

function requireProgram(program) {
  try {
    execFileSync("sh", ["-c", `command -v ${program}`], { stdio: "ignore" });
  } catch {
    fail(`${program} is not on the PATH: install it`);
  }
}

function read(path) {
  return readFileSync(join(ROOT, path), "utf8");
}

/** Runs a program and returns its standard output. @throws if the program fails */
function run(program, args, cwd = ROOT, env = process.env) {
  try {
    return execFileSync(program, args, { cwd, env, stdio: ["ignore", "pipe", "inherit"], maxBuffer: 2 ** 27 });
  } catch {
    throw new Error(`this command failed in ${cwd}: ${program} ${args.join(" ")}`);
  }
}

function fail(message) {
  console.error(message);
  process.exit(1);
}
