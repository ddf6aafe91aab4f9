import { usageFailure } from "../failures.ts";
import { type DefineCommand, runs } from "./command.ts";

interface ListedProfile {
  readonly name: string;
  /** The URL of the service. Undefined if the file of the profile is malformed or readable by other users. */
  readonly url: string | undefined;
  readonly isCurrent: boolean;
}

export const profileCommands: DefineCommand = (profile, shell) => {
  profile.description("profiles: list, use");
  const list = profile.command("list").description("list the profiles of `ugs login`, without their tokens");
  runs(list, shell, async ({ settings, out }) => {
    const { profiles } = settings;
    const current = await settings.profileName();
    const found: ListedProfile[] = [];
    for (const name of await profiles.names()) {
      const known = await profiles.read(name).catch(() => undefined);
      found.push({ name, url: known?.url, isCurrent: name === current });
    }
    if (!(await out.rows(COLUMNS, [found], (each) => each)))
      out.note("There are no profiles. To create one: ugs login --url URL");
  });

  const use = profile.command("use").description("make a profile the current profile").argument("<name>");
  runs(use, shell, async ({ settings, out }, name: string) => {
    if (!(await settings.profiles.read(name)))
      throw usageFailure(`the profile ${name} does not exist`, "run: ugs profile list");
    await settings.profiles.choose(name);
    out.note(`The current profile is ${name}.`);
  });
};

const COLUMNS = [
  { name: "PROFILE", of: ({ name }: ListedProfile) => name },
  { name: "SERVICE", of: ({ url }: ListedProfile) => url ?? "its file is not valid: log in again", isFree: true },
  { name: "CURRENT", of: ({ isCurrent }: ListedProfile) => (isCurrent ? "yes" : "no") },
];
