import { constants } from "node:fs";
import { access, readdir, readFile, rm } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import { NAME } from "../../operator/src/environment-name.ts";
import { isObject } from "../../operator/src/fields.ts";
import { quoted } from "../../operator/src/input.ts";
import { usageFailure } from "./failures.ts";
import { ignoreMissing, reading, readSecretFile, writeSecretFile } from "./files.ts";
import { parsedJson } from "./json.ts";
import type { Shell } from "./shell.ts";

export interface Profile {
  readonly url: string;
  readonly token: string;
  readonly caFile?: string | undefined;
  readonly certFile?: string | undefined;
  readonly keyFile?: string | undefined;
  readonly serverName?: string | undefined;
}

const DEFAULT_PROFILE = "default";

/** The profiles of a user: a file for each profile, and a file with the name of the current profile. */
export class Profiles {
  readonly #folder: string;

  /**
   * The folder of the profiles depends on `XDG_CONFIG_HOME` and `HOME`
   * (https://specifications.freedesktop.org/basedir-spec/).
   */
  constructor(env: Shell["env"]) {
    const config = env["XDG_CONFIG_HOME"] || join(env["HOME"] || homedir(), ".config");
    this.#folder = join(config, "ugs");
  }

  /** Returns the path of the file of a profile. @throws Failure if the name is not valid */
  pathOf(name: string): string {
    if (!NAME.test(name))
      throw usageFailure(
        "the name of a profile has 1 to 64 letters, digits, '.', '_' or '-', and does not start with a dot",
      );
    return join(this.#folder, "profiles", `${name}.json`);
  }

  /**
   * @returns undefined if the profile does not exist
   * @throws Failure if the file of the profile is malformed, or if other users can read the file
   */
  async read(name: string): Promise<Profile | undefined> {
    const path = this.pathOf(name);
    if (!(await this.names()).includes(name)) return undefined;
    const profile = parseProfile(await readSecretFile(path));
    if (profile) return profile;
    throw usageFailure(`${path} is not a profile of ugs`, `run: ugs login --profile ${name}, or delete the file`);
  }

  /** Creates or replaces a profile. @throws Failure if the file cannot be written */
  async write(name: string, profile: Profile): Promise<void> {
    await writeSecretFile(this.pathOf(name), `${JSON.stringify(profile, undefined, 2)}\n`);
  }

  /** Deletes a profile. @returns whether the profile existed */
  async remove(name: string): Promise<boolean> {
    const path = this.pathOf(name);
    const present = (await this.names()).includes(name);
    await rm(path, { force: true }).catch((error: unknown) => {
      throw usageFailure(`cannot delete ${path}: ${(error as { code?: unknown }).code}`, `run: rm ${quoted(path)}`);
    });
    return present;
  }

  /**
   * Returns whether the current user may read the folder of the profiles. Returns true if the folder does not exist.
   * Returns false if, for example, `sudo ugs login` created the folder, or if `HOME` belongs to another user.
   */
  async areReadable(): Promise<boolean> {
    try {
      await access(this.#folder, constants.R_OK | constants.X_OK).catch(ignoreAbsent);
      return true;
    } catch {
      return false;
    }
  }

  /** @throws Failure if the folder of the profiles exists, but cannot be read */
  async names(): Promise<string[]> {
    const folder = join(this.#folder, "profiles");
    const files = (await reading(folder, () => readdir(folder).catch(ignoreAbsent))) ?? [];
    const found = files.filter((file) => file.endsWith(".json")).map((file) => file.slice(0, -".json".length));
    return found.filter((name) => NAME.test(name)).sort();
  }

  /**
   * Returns the name of the current profile.
   *
   * @throws Failure if the name is stored, but cannot be read. If this method returned the default profile instead, a
   *   command could change the wrong service
   */
  async current(): Promise<string> {
    const path = join(this.#folder, "profile");
    const text = await reading(path, () => readFile(path, "utf8").catch(ignoreAbsent));
    return text?.trim() || DEFAULT_PROFILE;
  }

  /** Makes a profile the current profile. @throws Failure if the file cannot be written */
  async choose(name: string): Promise<void> {
    await writeSecretFile(join(this.#folder, "profile"), `${name}\n`);
  }
}

/** Ignores the errors `ENOENT` and `ENOTDIR`, which mean that a file does not exist. @throws any other error */
function ignoreAbsent(error: unknown): undefined {
  if ((error as { code?: string }).code !== "ENOTDIR") ignoreMissing(error);
}

function parseProfile(text: string): Profile | undefined {
  const value = parsedJson(text);
  if (!isObject(value) || !("url" in value && "token" in value)) return undefined;
  return Object.values(value).every((part) => typeof part === "string") ? (value as unknown as Profile) : undefined;
}
