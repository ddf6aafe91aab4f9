import { existsSync, mkdirSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { orLeaveOut } from "@user-group-service/testing/on-path";
import { newFolder } from "@user-group-service/testing/opened";
import { ROOT } from "@user-group-service/testing/process";
import { waitFor } from "@user-group-service/testing/wait";
import { expect, it } from "vitest";
import { newTerminal } from "../../../test/support/terminal.ts";

/** What the package bash-completion has; the script for bash needs it. */
const BASH_COMPLETION = "/usr/share/bash-completion/bash_completion";

/** How each shell is started without its settings, and loads its completion. */
const SHELLS: { readonly [shell: string]: readonly [start: string, load: string] } = {
  bash: ["bash --norc", `source ${BASH_COMPLETION}; source <(ugs completion bash)`],
  zsh: ["zsh -f", "autoload -U compinit; compinit -u; source <(ugs completion zsh)"],
  fish: ["fish --no-config", "ugs completion fish | source"],
};

it.each(Object.entries(SHELLS))("%s completes commands, options and profiles", async (shell, [start, load]) => {
  if (orLeaveOut(shell, `completion in ${shell} is`) === undefined) return;
  if (shell === "bash" && !existsSync(BASH_COMPLETION)) {
    expect(process.env["CI"], "bash-completion is not installed").not.toBe("true");
    return;
  }
  const home = newFolder();
  for (const folder of ["bin", "ugs/profiles"]) mkdirSync(join(home, folder), { recursive: true });
  symlinkSync(`${ROOT}/dist/ugs.js`, join(home, "bin/ugs"));
  symlinkSync("/nowhere", join(home, "ugs/profiles/production.json"));
  const PATH = `${join(home, "bin")}:${process.env["PATH"]}`;
  const session = newTerminal(start, { env: { PATH, HOME: home, XDG_CONFIG_HOME: home, PS1: "> " } });
  session.type(`${load}; echo load''ed\r`);
  await waitFor("it is loaded", () => session.screen().includes("loaded"));
  // What is typed stands on the screen in pieces, with movements of the cursor between.
  let seen = session.screen().length;
  for (const [typed, completed] of [
    ["ugs token rot\t", "rotate"],
    [" --gr\t", "--grace"],
    [" 1h --profile pro\t", "production"],
  ] as const) {
    session.type(typed);
    await waitFor(`${typed} is completed`, () => session.screen().slice(seen).includes(completed));
    seen = session.screen().length;
  }
  session.type("\u0003");
});
