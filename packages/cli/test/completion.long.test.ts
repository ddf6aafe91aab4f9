import { mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { orLeaveOut } from "@user-group-service/testing/on-path";
import { newFolder } from "@user-group-service/testing/opened";
import { waitFor } from "@user-group-service/testing/wait";
import { describe, expect, it } from "vitest";
import { newTerminal } from "../../../test/support/terminal.ts";
import { UGS } from "./support/ugs.ts";

/**
 * Two commands for each shell. The first command starts the shell, but does not load the settings of the user. The
 * second command loads the completion.
 */
const SHELLS = {
  bash: ["bash --norc", "source <(ugs completion bash)"],
  // Without this binding, Tab in zsh would expand the word at the cursor before it completes the word.
  zsh: ["zsh -f", "autoload -U compinit; compinit -u; source <(ugs completion zsh); bindkey '^I' complete-word"],
  fish: ["fish --no-config", "ugs completion fish | source"],
} as const;

/** The key Ctrl-U, which discards the typed line. Ctrl-C would also discard the keys that the test types next. */
const KILL_LINE = "\u0015";

type ShellName = keyof typeof SHELLS;

const NAMES = Object.keys(SHELLS) as ShellName[];

/** A script that appends its arguments to a file, one per line, and completes `--en`. */
const RECORDING = `printf '%s\\n' "$@" >> "$HOME/requested"
case "$*" in *--en) printf '%s\\t%s\\n' --env 'an environment';; esac`;

/**
 * Starts a shell on a terminal, and loads the completion of `ugs`. Returns undefined if the shell is not installed.
 *
 * @param answer a script that answers `ugs complete`
 */
async function newShell(name: ShellName, answer = `exec '${UGS}' "$@"`) {
  if (orLeaveOut(name, `completion in ${name} is`) === undefined) return undefined;
  const [start, load] = SHELLS[name];
  const [home, cwd] = [newFolder(), newFolder()];
  for (const folder of ["bin", "ugs/profiles"]) mkdirSync(join(home, folder), { recursive: true });
  symlinkSync("/nowhere", join(home, "ugs/profiles/production.json"));
  const program = `#!/bin/sh\nif [ "$1" != complete ]; then exec '${UGS}' "$@"; fi\n${answer}\n`;
  writeFileSync(join(home, "bin/ugs"), program, { mode: 0o755 });
  const PATH = `${join(home, "bin")}:${process.env["PATH"]}`;
  const env = { PATH, HOME: home, XDG_CONFIG_HOME: home, PS1: "> " };
  const session = newTerminal(start, { env, cwd });
  let steps = 0;
  const run = async (line: string) => {
    steps += 1;
    session.type(`${line}; echo step''-${steps}-done\r`);
    await waitFor(`${name} has run ${line}`, () => session.screen().includes(`step-${steps}-done`));
  };
  /** Types keys, and waits until the screen shows a text. The screen may receive the typed keys in several parts. */
  const typeUntil = async (keys: string, shown: string) => {
    const seen = session.screen().length;
    session.type(keys);
    await waitFor(`${name} shows ${shown} for ${keys}`, () => session.screen().slice(seen).includes(shown));
  };
  await run(load);
  const requested = () => readFileSync(join(home, "requested"), "utf8");
  return { ...session, cwd, run, typeUntil, requested };
}

describe.each(NAMES)("completion in %s", (name) => {
  it("completes commands, options, their values, profiles and files", async () => {
    const shell = await newShell(name);
    if (!shell) return;
    writeFileSync(join(shell.cwd, "groups.jsonl"), "");
    for (const [typed, completed] of [
      ["ugs token cre\t", "create"],
      ["--expi\t", "--expires"],
      ["1h --profile pro\t", "production"],
      [`${KILL_LINE}ugs token create --name "a b" --role=res\t`, "resolve"],
      [`${KILL_LINE}ugs --token-file gr\t`, "groups.jsonl"],
      [`${KILL_LINE}ugs --url http://127.0.0.1:1 profile u\t`, "use"],
      ["prod\t", "production"],
    ] as const) {
      await shell.typeUntil(typed, completed);
    }
  });

  it("runs no part of the command line and writes no file", async () => {
    const shell = await newShell(name, RECORDING);
    if (!shell) return;
    writeFileSync(join(shell.cwd, "precious"), "precious\n");
    for (const word of HOSTILE) {
      for (const end of [" ", " --en", " --env=$(:>hit)="]) {
        // If the screen shows `Q`, the shell has handled both Tabs. A shell may ask a question after a Tab. `n` answers
        // this question.
        await shell.typeUntil(`${KILL_LINE}ugs group get ${word}${end}\t\tnQ`, "Q");
        expect(readdirSync(shell.cwd), `Tab behind ${word}${end}`).toEqual(["precious"]);
        expect(readFileSync(join(shell.cwd, "precious"), "utf8"), `Tab behind ${word}${end}`).toBe("precious\n");
      }
    }
    // The first line opens a quote, so the shell waits for the next line, and completes only that line.
    await shell.typeUntil(`${KILL_LINE}ugs group get 'a\rb;touch hit' \t\tnQ`, "Q");
    expect(readdirSync(shell.cwd), "Tab in the second line").toEqual(["precious"]);
    expect(shell.requested()).toMatch(/^group\nget\n\$\(touch hit\)\n--en$/m);
  });
});

/** Words that would execute a command or write a file if the shell evaluated them. */
const HOSTILE = [
  "$(touch hit)",
  "`touch hit`",
  '"$(touch hit)"',
  "$" + "{x:=$(touch hit)}",
  "a[$(touch hit)]",
  "--env=$(touch hit)=x",
  "-$(touch hit)=",
  "';touch hit;'",
  '";touch hit;"',
  "\\;touch\\ hit",
  "'\";touch hit;'",
  "<(touch hit)",
  ">precious",
  "> precious",
  ">> precious",
  "2> precious",
  "&> precious",
  "| tee precious",
  "; : > precious",
  "&& : > precious",
] as const;
