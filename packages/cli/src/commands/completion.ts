import { COMPLETION_SCRIPTS } from "../completion-scripts.ts";
import { type DefineCommand, runs } from "./command.ts";

const SHELLS = Object.keys(COMPLETION_SCRIPTS) as (keyof typeof COMPLETION_SCRIPTS)[];

/** The commands that install the completion script, one per kind of shell. New shells then load the script. */
const INSTALL: { readonly [shell in keyof typeof COMPLETION_SCRIPTS]: string } = {
  bash: "echo 'source <(ugs completion bash)' >> ~/.bashrc",
  zsh: "echo 'source <(ugs completion zsh)' >> ~/.zshrc",
  fish: "ugs completion fish > ~/.config/fish/completions/ugs.fish",
};

export const completionCommand: DefineCommand = (command, shell) => {
  command
    .description("completion for bash, zsh or fish")
    .addArgument(command.createArgument("<shell>").choices(SHELLS))
    .addHelpText(
      "after",
      `
The script calls ugs when you press Tab. To load the script in every new shell, run the command of your shell:
${SHELLS.map((name) => `  ${name.padEnd(5)} ${INSTALL[name]}`).join("\n")}`,
    );
  runs(command, shell, async ({ out }, name: keyof typeof COMPLETION_SCRIPTS) => out.text(COMPLETION_SCRIPTS[name]));
};
