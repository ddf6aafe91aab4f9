import { resolve } from "node:path";
import { GetCallerResponseSchema } from "../../../../gen/usergroup/admin/v1/admin_service_pb.ts";
import { usageFailure } from "../failures.ts";
import type { Profile } from "../profiles.ts";
import { ask, canAsk, confirm } from "../questions.ts";
import { readToken } from "../secret-input.ts";
import { clientsOf, connect, type Session } from "../session.ts";
import { isLoopback, parseUrl, urlText } from "../settings.ts";
import { type DefineCommand, runs } from "./command.ts";
import { type Options, yesOption } from "./options.ts";

export const loginCommand: DefineCommand = (command, shell) => {
  command.description("store the URL of a service and a token for the service as a profile").addHelpText(
    "after",
    `
The token comes from --token-file, UGS_TOKEN, standard input or a prompt. After the service has accepted the token, ugs
stores it in a file that only you can read.`,
  );
  command.addOption(yesOption());
  runs(command, shell, async (session, { yes }: Options) => {
    const { settings, out } = session;
    const name = await settings.profileName();
    // Rejects an invalid name before the first prompt.
    settings.profiles.pathOf(name);
    const url = await urlFor(session, name);
    const token = (await settings.givenToken()) ?? (await readToken(shell, "API token, or ADMIN_TOKEN"));
    const connection = await settings.connectionTo(url);
    const caller = await clientsOf(connection, { token, signal: shell.signal }).admin.getCaller({});
    const { serverName, ...files } = settings.tlsFiles();
    const paths = Object.entries(files).map(([key, file]) => [key, file && resolve(file)]);
    const profile: Profile = { url: url.href, token, serverName, ...Object.fromEntries(paths) };
    await confirmReplacement(session, { name, profile, yes });
    await settings.profiles.write(name, profile);
    await settings.profiles.choose(name);
    await out.record(GetCallerResponseSchema, caller, [
      { label: "profile", text: name },
      { label: "service", text: urlText(connection) },
    ]);
    if (url.protocol === "http:" && !isLoopback(url))
      out.note(
        "The network carries the token unencrypted: use http:// only on this machine and in networks that you trust.",
      );
  });
};

export const whoamiCommand: DefineCommand = (command, shell) => {
  command.description("show the API token in use, and its role");
  runs(command, shell, async (session) => {
    const { admin, connection } = await connect(session);
    const caller = await admin.getCaller({});
    await session.out.record(GetCallerResponseSchema, caller, [{ label: "service", text: urlText(connection) }]);
  });
};

export const logoutCommand: DefineCommand = (command, shell) => {
  command.description("delete a profile and its token");
  runs(command, shell, async ({ settings, out }) => {
    const name = await settings.profileName();
    if (!(await settings.profiles.remove(name)))
      throw usageFailure(`the profile ${name} does not exist`, "run: ugs profile list");
    out.note(`Deleted the profile ${name}. Its token is still valid; to revoke the token, run: ugs token revoke`);
  });
};

async function confirmReplacement(
  { settings: { profiles }, shell }: Session,
  { name, profile, yes }: Options & { readonly name: string; readonly profile: Profile },
): Promise<void> {
  if (!(await profiles.names()).includes(name)) return;
  const before = await profiles.read(name).catch(() => undefined);
  if (JSON.stringify(before) === JSON.stringify(profile)) return;
  const facts = before ? ` (${before.url}), and deletes its token` : "";
  const consequence = `This replaces the profile ${name}${facts}`;
  await confirm(shell, { id: name, consequence }, yes);
}

/**
 * Returns the URL from the first of these sources that has a URL: the option, the environment variable, the profile, or
 * a prompt.
 *
 * @throws Failure if no source has a URL, or if the URL is not valid
 */
async function urlFor({ settings, shell }: Session, name: string): Promise<URL> {
  const given = settings.givenUrl();
  if (given) return given;
  const known = await settings.profiles.read(name).catch(() => undefined);
  if (known) return parseUrl("the profile's url", known.url);
  if (!canAsk(shell)) throw usageFailure("no URL is set", "run: ugs login --url URL, such as http://127.0.0.1:8080");
  return parseUrl("the answer", await ask(shell, "URL of the service"));
}
