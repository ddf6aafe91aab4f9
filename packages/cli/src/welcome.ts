import { Output } from "./output/output.ts";
import { Settings } from "./settings.ts";
import type { Shell } from "./shell.ts";

/** Writes the output of `ugs` without a command: the current profile and the next steps. Does not call the service. */
export async function welcome(shell: Shell): Promise<void> {
  const out = new Output(shell, false);
  const settings = new Settings({}, shell.env);
  const name = await settings.profileName();
  const profile = await settings.profiles.read(name);
  const url = settings.givenUrl()?.href ?? profile?.url;
  const where = url === undefined ? undefined : `${url.replace(/\/$/, "")}${profile ? ` (profile ${name})` : ""}`;
  await out.heading("ugs, the command line of the User Group Service");
  const lines = [
    "",
    ...(where === undefined
      ? [
          "No service is set up yet. To begin:",
          "  ugs login --url http://127.0.0.1:8080   read a token and store it",
          "  npm start                               start a trial service, and print its tokens",
        ]
      : [
          `The service is ${where}. Next steps:`,
          "  ugs whoami             the API token in use, and its role",
          "  ugs group list         user groups; --prefix, --limit, --json",
          "  ugs token list         API tokens, and the last use of each token",
          "  ugs audit --follow     changes as they happen",
        ]),
    "",
    "ugs --help lists all commands; ugs COMMAND --help describes a command.",
  ];
  await out.line(lines.join("\n"));
}
