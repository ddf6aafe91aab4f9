import { isIP } from "node:net";
import { resolve } from "node:path";
import { GetCallerResponseSchema } from "../../../../gen/usergroup/admin/v1/admin_service_pb.ts";
import { usageFailure } from "../failures.ts";
import { callerFacts } from "../output/caller.ts";
import { ask, canAsk } from "../questions.ts";
import { readToken } from "../secret-input.ts";
import { clientsOf, type Session } from "../session.ts";
import { parseUrl, urlText } from "../settings.ts";
import { type DefineCommand, runs } from "./command.ts";

/** `ugs login` */
export const loginCommand: DefineCommand = (command, shell) => {
  command.addHelpText(
    "after",
    `
The token comes from --token-file, UGS_TOKEN, standard input, or is asked for. It is kept once the service knows it, in
a file that you alone can read.`,
  );
  runs(command, shell, async (session) => {
    const { settings, out } = session;
    const name = await settings.profileName();
    // Refuses an invalid name before any question.
    settings.profiles.pathOf(name);
    const url = await urlFor(session, name);
    const token = (await settings.givenToken()) ?? (await readToken(shell, "API token, or ADMIN_TOKEN"));
    const connection = await settings.connectionTo(url);
    const caller = await clientsOf(connection, token, shell).admin.getCaller({});
    const { serverName, ...files } = settings.tlsFiles();
    const paths = Object.entries(files).map(([key, file]) => [key, file && resolve(file)]);
    await settings.profiles.write(name, { url: url.href, token, serverName, ...Object.fromEntries(paths) });
    await settings.profiles.choose(name);
    await out.record(GetCallerResponseSchema, caller, [
      ["profile", name],
      ["service", urlText(connection)],
      ...callerFacts(caller),
    ]);
    if (url.protocol === "http:" && !isLoopback(url))
      out.note("The token goes over the network unencrypted: http:// is for this machine and networks that you trust.");
  });
};

/** `ugs logout` */
export const logoutCommand: DefineCommand = (command, shell) => {
  runs(command, shell, async ({ settings, out }) => {
    const name = await settings.profileName();
    if (!(await settings.profiles.remove(name)))
      throw usageFailure(`there is no profile ${name}`, "run: ugs profile list");
    out.note(`The profile ${name} is gone. Its token is still valid: ugs token revoke ends one.`);
  });
};

/**
 * The URL to log in to: from an option, the environment or the profile, or else asked for. @throws Failure when there
 * is none
 */
async function urlFor({ settings, shell }: Session, name: string): Promise<URL> {
  const given = settings.givenUrl();
  if (given) return given;
  const known = await settings.profiles.read(name).catch(() => undefined);
  if (known) return parseUrl("the profile's url", known.url);
  if (!canAsk(shell)) throw usageFailure("no URL is given", "run: ugs login --url URL, such as http://127.0.0.1:8080");
  return parseUrl("the answer", await ask(shell, "URL of the service"));
}

function isLoopback({ hostname }: URL): boolean {
  if (hostname === "localhost" || hostname === "[::1]") return true;
  return isIP(hostname) === 4 && hostname.startsWith("127.");
}
