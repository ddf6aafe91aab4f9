import { usageFailure } from "../failures.ts";
import { jsonLine } from "../output/printable.ts";
import { Table } from "../output/table.ts";
import { type DefineCommand, runs } from "./command.ts";

/** A profile in the list of `ugs profile list`. */
interface ListedProfile {
  readonly name: string;
  /** Undefined: its file cannot be used. */
  readonly url: string | undefined;
  readonly isCurrent: boolean;
}

/** `ugs profile ...` */
export const profileCommands: DefineCommand = (profile, shell) => {
  const list = profile.command("list").description("list what `ugs login` kept, without the tokens");
  runs(list, shell, async ({ settings, out }) => {
    const { profiles } = settings;
    const current = await settings.profileName();
    const found: ListedProfile[] = [];
    for (const name of await profiles.names()) {
      const known = await profiles.read(name).catch(() => undefined);
      found.push({ name, url: known?.url, isCurrent: name === current });
    }
    if (out.isJson) for (const each of found) await out.line(jsonLine(each));
    else if (found.length === 0) out.note("There are none. To begin: ugs login --url URL");
    else await out.line(new Table(COLUMNS, out.width).lines(found).join("\n"));
  });

  const use = profile.command("use").description("use a profile from now on").argument("<name>");
  runs(use, shell, async ({ settings, out }, name: string) => {
    if (!(await settings.profiles.read(name)))
      throw usageFailure(`there is no profile ${name}`, "run: ugs profile list");
    await settings.profiles.choose(name);
    out.note(`The profile ${name} is used from now on.`);
  });
};

const COLUMNS = [
  { name: "PROFILE", of: ({ name }: ListedProfile) => name },
  { name: "SERVICE", of: ({ url }: ListedProfile) => url ?? "its file cannot be used: log in anew", isFree: true },
  { name: "USED", of: ({ isCurrent }: ListedProfile) => (isCurrent ? "yes" : "no") },
];
