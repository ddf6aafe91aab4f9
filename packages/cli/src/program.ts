import { Command } from "commander";
import packageJson from "../../../package.json" with { type: "json" };
import { COMMANDS } from "./commands/all.ts";
import type { Shell } from "./shell.ts";

/**
 * The tree of commands. A command gets its arguments, options and further commands when it is run, or by
 * `loadCommands`. Of itself the program writes only help. It never ends the process: it throws CommanderErrors.
 */
export function createProgram(shell: Shell): Command {
  const program = new Command("ugs");
  program
    .description("The command line of the User Group Service.")
    .version(packageJson.version, "-V, --version", "the version of ugs")
    .helpOption("-h, --help", "help on a command")
    .helpCommand("help [command]", "help on a command")
    .exitOverride()
    .configureOutput({
      writeOut: (text) => void shell.stdout.write(text),
      writeErr: (text) => void shell.stderr.write(text),
      // The caller reports the error like every other failure.
      outputError: () => {},
      getOutHelpWidth: () => shell.stdout.columns || 80,
      getErrHelpWidth: () => shell.stderr.columns || 80,
    })
    .configureHelp({ showGlobalOptions: true })
    .option("--url <url>", "where the service is (UGS_URL)")
    .option("--profile <name>", "what `ugs login` kept under this name (UGS_PROFILE)")
    .option(
      "--token-file <file>",
      "a file with the token, for its owner alone (UGS_TOKEN_FILE; UGS_TOKEN is the token)",
    )
    .option("--ca-file <file>", "authorities to trust over TLS, in PEM (UGS_CA_FILE)")
    .option("--cert-file <file>", "certificate to show over TLS, in PEM (UGS_CERT_FILE)")
    .option("--key-file <file>", "its private key, in PEM (UGS_KEY_FILE)")
    .option(
      "--server-name <name>",
      "name that the service's certificate is for, if not that of the URL (UGS_SERVER_NAME)",
    )
    .option("--timeout <duration>", "of each call; default: 10s (UGS_TIMEOUT)")
    .option("--json", "JSON, one object a line; failures as well");
  for (const [name, description] of COMMANDS) program.command(name).description(description);
  program.hook("preSubcommand", async (_, command) => {
    await load(command, shell);
  });
  return program;
}

/** Loads all commands, for help and completion. */
export async function loadCommands(program: Command, shell: Shell): Promise<void> {
  for (const command of program.commands) await load(command, shell);
}

async function load(command: Command, shell: Shell): Promise<void> {
  const [, , loadModule] = COMMANDS.find(([name]) => name === command.name()) ?? [];
  const define = await loadModule?.();
  define?.(command, shell);
}
