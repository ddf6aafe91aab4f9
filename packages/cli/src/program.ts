import { Command } from "commander";
import packageJson from "../../../package.json" with { type: "json" };
import { auditCommand } from "./commands/audit.ts";
import type { DefineCommand } from "./commands/command.ts";
import { completionCommand } from "./commands/completion.ts";
import { envCommands } from "./commands/env.ts";
import { eventsCommand } from "./commands/events.ts";
import { exportCommand } from "./commands/export.ts";
import { groupCommands } from "./commands/group.ts";
import { importCommand } from "./commands/import.ts";
import { keysCommands } from "./commands/keys.ts";
import { loginCommand, logoutCommand, whoamiCommand } from "./commands/login.ts";
import { metricsCommand } from "./commands/metrics.ts";
import { pingCommand } from "./commands/ping.ts";
import { profileCommands } from "./commands/profile.ts";
import { signingKeyCommands } from "./commands/signing-key.ts";
import { storeCommands } from "./commands/store.ts";
import { tokenCommands } from "./commands/token.ts";
import { viewerCommands } from "./commands/viewer.ts";
import { webhookCommands } from "./commands/webhook.ts";
import type { Shell } from "./shell.ts";

/** All commands, in the order in which the help lists them. */
const COMMANDS: { readonly [name: string]: DefineCommand } = {
  login: loginCommand,
  logout: logoutCommand,
  profile: profileCommands,
  whoami: whoamiCommand,
  ping: pingCommand,
  env: envCommands,
  token: tokenCommands,
  group: groupCommands,
  viewer: viewerCommands,
  "signing-key": signingKeyCommands,
  webhook: webhookCommands,
  import: importCommand,
  export: exportCommand,
  audit: auditCommand,
  metrics: metricsCommand,
  events: eventsCommand,
  keys: keysCommands,
  store: storeCommands,
  completion: completionCommand,
};

/**
 * Creates the tree of commands. Instead of printing an error or exiting, the returned command throws a CommanderError.
 */
export function createProgram(shell: Shell): Command {
  const program = new Command("ugs");
  program
    .description("The command line of the User Group Service.")
    .version(packageJson.version, "-V, --version", "show the version of ugs")
    .helpOption("-h, --help", "show help")
    .helpCommand("help [command]", "show help")
    .exitOverride()
    .configureOutput({
      writeOut: (text) => void shell.stdout.write(text),
      writeErr: (text) => void shell.stderr.write(text),
      // `runUgs` reports errors.
      outputError: () => {},
      getOutHelpWidth: () => shell.stdout.columns || 80,
      getErrHelpWidth: () => shell.stderr.columns || 80,
    })
    .configureHelp({ showGlobalOptions: true })
    .option("--url <url>", "URL of the service (UGS_URL)")
    .option("--profile <name>", "profile that `ugs login` stored (UGS_PROFILE)")
    .option(
      "--token-file <file>",
      "file with the API token; other users must not have access to the file (UGS_TOKEN_FILE; UGS_TOKEN contains the token itself)",
    )
    .option("--ca-file <file>", "CA certificates for TLS, in PEM (UGS_CA_FILE)")
    .option("--cert-file <file>", "client certificate for TLS, in PEM (UGS_CERT_FILE)")
    .option("--key-file <file>", "private key of the client certificate, in PEM (UGS_KEY_FILE)")
    .option(
      "--server-name <name>",
      "name in the certificate of the service; default: the host of the URL (UGS_SERVER_NAME)",
    )
    .option("--timeout <duration>", "timeout of each call, including retries; default: 10s (UGS_TIMEOUT)")
    .option("--json", "write results and failures as JSON, one object per line");
  for (const [name, define] of Object.entries(COMMANDS)) define(program.command(name), shell);
  return program;
}
