import { script } from "@bomb.sh/tab";
import { type DefineCommand, runs } from "./command.ts";

/** The shells that there is completion for. */
const SHELLS = ["bash", "zsh", "fish"];

/** How each shell loads its completion at its start. */
const INSTALL: { readonly [shell: string]: string } = {
  bash: "echo 'source <(ugs completion bash)' >> ~/.bashrc",
  zsh: "echo 'source <(ugs completion zsh)' >> ~/.zshrc",
  fish: "ugs completion fish > ~/.config/fish/completions/ugs.fish",
};

/** `ugs completion` */
export const completionCommand: DefineCommand = (command, shell) => {
  command.addArgument(command.createArgument("<shell>").choices(SHELLS)).addHelpText(
    "after",
    `
It is a script for the shell, which asks ugs at each press of Tab. To have it in every new shell:
${SHELLS.map((name) => `  ${name.padEnd(5)} ${INSTALL[name]}`).join("\n")}`,
  );
  runs(command, shell, async (_, name: string) => script(name, "ugs", "ugs"));
};
