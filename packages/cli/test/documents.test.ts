import { readdirSync, readFileSync } from "node:fs";
import { PassThrough } from "node:stream";
import { itemsOf } from "@user-group-service/testing/documents";
import type { Command } from "commander";
import { expect, it } from "vitest";
import { EXIT } from "../src/failures.ts";
import { createProgram } from "../src/program.ts";
import { Interrupted } from "../src/shell.ts";

function newProgram(): Command {
  const streams = { stdin: new PassThrough(), stdout: new PassThrough(), stderr: new PassThrough() };
  const shell = { env: {}, ...streams, signal: new AbortController().signal };
  return createProgram(shell);
}

/** Returns the help texts of a command and its subcommands. */
function helpOf(command: Command): string {
  return [command.helpInformation(), ...command.commands.map(helpOf)].join("\n");
}

it("the help names every environment variable that ugs reads", () => {
  const sources = readdirSync(new URL("../src/", import.meta.url), { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".ts") && !name.endsWith(".test.ts"))
    .map((name) => readFileSync(new URL(`../src/${name}`, import.meta.url), "utf8"));
  const read = new Set(sources.join("\n").match(/(?<=")UGS_\w+(?=")/g));
  const named = new Set(helpOf(newProgram()).match(/UGS_\w+/g));
  expect(read.size).toBeGreaterThan(0);
  expect([...read].filter((name) => !named.has(name))).toEqual([]);
});

it("docs/cli.md lists every exit code of ugs, and no other code", () => {
  const codes = [...Object.values(EXIT), new Interrupted("SIGINT").exitCode, new Interrupted("SIGTERM").exitCode];
  const documented = itemsOf("docs/cli.md", "Exit codes").flatMap(([names]) => names.split(", ").map(Number));
  expect(documented.sort()).toEqual(codes.sort());
});

it("every documented `ugs token create` has a name and a role", () => {
  const docs = new URL("../../../docs/", import.meta.url);
  const texts = readdirSync(docs)
    .filter((name) => name.endsWith(".md"))
    .map((name) => readFileSync(new URL(name, docs), "utf8"));
  const commands = texts.join("\n").match(/^[ $]*ugs token create .*$/gm) ?? [];
  expect(commands.length).toBeGreaterThan(1);
  for (const command of commands) expect(command).toMatch(/(?=.* --name )(?=.* --role )/);
});
