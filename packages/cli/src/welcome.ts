import { Output } from "./output/output.ts";
import { Settings } from "./settings.ts";
import type { Shell } from "./shell.ts";

/** What `ugs` without a command shows: the profile in use, and what to do next. It calls no service. */
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
          "No service is known yet. To begin:",
          "  ugs login --url http://127.0.0.1:8080   asks for a token and keeps it",
          "  npm start                               starts a service to try, and prints tokens for it",
        ]
      : [
          `The service is ${where}. To go on:`,
          "  ugs whoami             whose the token is, and what it may do",
          "  ugs group list         user groups; --prefix, --limit, --json",
          "  ugs token list         API tokens, and when each was last used",
          "  ugs audit --follow     who changes what, as it happens",
        ]),
    "",
    "ugs --help lists all commands; ugs COMMAND --help tells more of one.",
  ];
  await out.line(lines.join("\n"));
}
