import { execFileSync } from "node:child_process";
import { chmodSync, cpSync, mkdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { ROOT } from "@user-group-service/testing/process";

/** An instruction of a Dockerfile. If the instruction has continuation lines, they are joined to one line. */
export interface Instruction {
  readonly name: string;
  readonly flags: { readonly [name: string]: string };
  readonly rest: string;
}

export interface Stage {
  readonly from: string;
  readonly name: string | undefined;
  readonly instructions: readonly Instruction[];
}

export function readStages(path: string): Stage[] {
  const lines = readFileSync(path, "utf8")
    .replace(/^#.*\n/gm, "")
    .replace(/\\\n\s*/g, "")
    .split("\n")
    .filter(Boolean);
  const stages: { from: string; name: string | undefined; instructions: Instruction[] }[] = [];
  for (const line of lines) {
    const [, name = "", words = "", rest = ""] = /^(\w+) ((?:--\S+ +)*)(.*)$/.exec(line) ?? [];
    const flags = Object.fromEntries([...words.matchAll(/--(\w[\w-]*)=(\S+)/g)].map(([, key, value]) => [key, value]));
    const [, from = "", alias] = /^(\S+)(?: AS (\S+))?$/.exec(rest) ?? [];
    if (name === "FROM") stages.push({ from, name: alias, instructions: [] });
    else stages.at(-1)?.instructions.push({ name, flags, rest });
  }
  return stages;
}

export interface Container {
  readonly env: { readonly [name: string]: string };
  readonly user: string;
  readonly command: readonly string[];
  readonly healthcheck: readonly string[];
  readonly labels: { readonly [name: string]: string };
}

/**
 * Executes the instructions of a stage on this machine, and uses a folder as the root of the file system.
 *
 * @param root folder that is used as `/`
 * @param roots root folders of other stages, by the name of the stage. This stage can copy files from these folders
 * @returns configuration of the stage's container
 * @throws if an instruction is not supported
 */
export function carryOut(stage: Stage, root: string, roots: ReadonlyMap<string, string>): Container {
  let folder = "/";
  let [user, entrypoint, command, healthcheck]: [string, string[], string[], string[]] = ["0:0", [], [], []];
  const env: { [name: string]: string } = {};
  const labels: { [name: string]: string } = {};
  const variables: { [name: string]: string } = {};
  const within = (path: string) => join(root, path.startsWith("/") ? path : join(folder, path));
  const pairs = (text: string) =>
    [...text.matchAll(/(\S+?)=(?:"([^"]*)"|(\S+))/g)].map(([, key = "", quoted, bare = ""]) => {
      return [key, (quoted ?? bare).replace(/\$\{(\w+)\}/g, (_, name: string) => variables[name] ?? "")] as const;
    });
  const known: { [name: string]: (instruction: Instruction) => void } = {
    ARG: ({ rest }) => Object.assign(variables, Object.fromEntries(pairs(rest))),
    ENV: ({ rest }) => Object.assign(env, Object.fromEntries(pairs(rest))),
    LABEL: ({ rest }) => Object.assign(labels, Object.fromEntries(pairs(rest))),
    WORKDIR: ({ rest }) => {
      folder = join(folder, rest);
      mkdirSync(join(root, folder), { recursive: true });
    },
    COPY: ({ rest, flags }) => {
      const [from = "", to = ""] = rest.split(/ +/);
      if (flags["from"] === undefined) copyContext(within(to));
      else cpSync(join(roots.get(flags["from"]) ?? "", from), within(to), { recursive: true });
    },
    RUN: ({ rest }) => {
      // Packages are not installed, because this machine already has the packages that the tests need.
      if (rest.startsWith("apt-get ")) return;
      const { PATH = "", HOME = "" } = process.env;
      execFileSync("sh", ["-c", rest], { cwd: within("."), env: { PATH, HOME, ...env }, stdio: "inherit" });
    },
    USER: ({ rest }) => {
      user = rest;
    },
    EXPOSE: () => {},
    HEALTHCHECK: ({ rest }) => {
      healthcheck = JSON.parse(rest.replace(/^.*?CMD /, "")) as string[];
    },
    ENTRYPOINT: ({ rest }) => {
      entrypoint = JSON.parse(rest) as string[];
    },
    CMD: ({ rest }) => {
      command = JSON.parse(rest) as string[];
    },
  };
  for (const instruction of stage.instructions) {
    const carry = known[instruction.name];
    if (!carry) throw new Error(`this test does not support ${instruction.name} in a Dockerfile`);
    carry(instruction);
  }
  return { env, user, labels, healthcheck, command: [...entrypoint, ...command] };
}

/**
 * Copies the build context without the files that `.dockerignore` excludes. If several lines of `.dockerignore` match a
 * file, the last matching line counts.
 */
function copyContext(to: string): void {
  const rules = readFileSync(join(ROOT, ".dockerignore"), "utf8")
    .split("\n")
    .filter((line) => /^[^#]/.test(line));
  const patterns = rules.map((rule) => ({ sends: rule.startsWith("!"), pattern: regexOf(rule.replace(/^!/, "")) }));
  const list = ["ls-files", "--cached", "--others", "--exclude-standard", "-z"];
  const files = execFileSync("git", list, { cwd: ROOT, encoding: "utf8" }).split("\0").filter(Boolean);
  for (const file of files) {
    if (!patterns.findLast(({ pattern }) => pattern.test(file))?.sends) continue;
    const path = join(to, file);
    mkdirSync(dirname(path), { recursive: true });
    cpSync(join(ROOT, file), path);
    chmodSync(path, 0o644);
  }
}

/** Returns a regular expression that matches the path in a line of `.dockerignore`, and everything below this path. */
function regexOf(pattern: string): RegExp {
  const escaped = pattern.replace(/[.+^${}()|[\]\\]/g, "\\$&");
  const text = escaped.replace(/\*\*\/|\*/g, (stars) => (stars === "*" ? "[^/]*" : "(?:.*/)?"));
  return new RegExp(`^${text}(?:/.*)?$`);
}
