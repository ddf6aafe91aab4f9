import { readdirSync, readFileSync } from "node:fs";
import { PassThrough } from "node:stream";
import { rowsOf } from "@user-group-service/testing/documents";
import type { Command } from "commander";
import { expect, it } from "vitest";
import { EXIT } from "../src/failures.ts";
import { createProgram } from "../src/program.ts";
import { Interrupted } from "../src/shell.ts";

/** The program with all its commands. */
function newProgram(): Command {
  const streams = { stdin: new PassThrough(), stdout: new PassThrough(), stderr: new PassThrough() };
  const shell = { env: {}, ...streams, signal: new AbortController().signal };
  return createProgram(shell);
}

/** Every command without subcommands, with the description from its help. */
function commandsOf(command: Command, path: string): string[][] {
  const below = command.commands.flatMap((child) => commandsOf(child, `${path} ${child.name()}`));
  if (below.length > 0) return below;
  const args = command.registeredArguments.map((argument) =>
    argument.required ? ` <${argument.name()}>` : ` [${argument.name()}]`,
  );
  return [[path + args.join(""), command.description().replaceAll("`", "")]];
}

it("the table of commands lists every command with its description, and no other", async () => {
  const documented = rowsOf("docs/cli.md", "Commands");
  expect(documented.map(([name, words]) => [name, words])).toEqual(commandsOf(newProgram(), "ugs"));
});

it("the table of settings lists every option of all commands", async () => {
  const options = newProgram()
    .options.map(({ long }) => long)
    .filter((long) => long !== "--version");
  const documented = rowsOf("docs/cli.md", "Settings").flatMap(([names = ""]) => names.match(/--[\w-]+/g) ?? []);
  expect([...documented].sort()).toEqual([...options].sort());
});

it("the table of settings lists every environment variable that ugs reads", () => {
  const sources = readdirSync(new URL("../src/", import.meta.url), { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".ts") && !name.endsWith(".test.ts"))
    .map((name) => readFileSync(new URL(`../src/${name}`, import.meta.url), "utf8"));
  const read = new Set(sources.join("\n").match(/(?<=")UGS_\w+(?=")/g));
  const documented = rowsOf("docs/cli.md", "Settings").flatMap(([, names = ""]) => names.match(/UGS_\w+/g) ?? []);
  expect(documented.sort()).toEqual([...read].sort());
});

it("the table of exit codes lists every code, and no other", () => {
  const codes = [...Object.values(EXIT), new Interrupted("SIGINT").exitCode, new Interrupted("SIGTERM").exitCode];
  const documented = rowsOf("docs/cli.md", "Exit codes").flatMap(([names = ""]) => names.split(", ").map(Number));
  expect(documented.sort()).toEqual(codes.sort());
});

it("commands that issue an API token give it a name and a role", () => {
  const docs = new URL("../../../docs/", import.meta.url);
  const texts = readdirSync(docs)
    .filter((name) => name.endsWith(".md"))
    .map((name) => readFileSync(new URL(name, docs), "utf8"));
  const commands = texts.join("\n").match(/^[ $]*ugs token create .*$/gm) ?? [];
  expect(commands.length).toBeGreaterThan(1);
  for (const command of commands) expect(command).toMatch(/(?=.* --name )(?=.* --role )/);
});
