import { type Command, InvalidArgumentError, Option } from "commander";
import type { EnvironmentName } from "../../../../gen/usergroup/admin/v1/environment_pb.ts";
import { parseEnvironmentName } from "../../../operator/src/environment-name.ts";
import { usageFailure } from "../failures.ts";
import { requireWritable } from "../files.ts";
import type { Session } from "../session.ts";

export interface Options {
  readonly env?: string;
  readonly follow?: boolean;
  readonly force?: boolean;
  readonly limit?: number;
  readonly out?: string;
  readonly yes?: boolean;
}

export function limitOption(): Option {
  return new Option("--limit <n>", "the maximum number of results; default: all").argParser(countOf);
}

/** Parses a whole number. @throws InvalidArgumentError if the text is not a whole number of 1 or more */
export function countOf(text: string): number {
  const count = /^\d{1,9}$/.test(text) ? Number(text) : 0;
  if (count < 1) throw new InvalidArgumentError("It must be a whole number of 1 or more.");
  return count;
}

export function environmentOption(): Option {
  return new Option(
    "-e, --env <name>",
    "environment, needed with ADMIN_TOKEN: NAME, NAME/Customer or NAME/Testing (UGS_ENV)",
  );
}

/**
 * Returns the environment of `--env` or `UGS_ENV`. If neither is set, returns undefined, and the service uses the
 * environment of the token.
 *
 * @throws Failure if the name is not valid
 */
export function environmentOf({ shell }: Session, { env }: Options): EnvironmentName | undefined {
  const name = env ?? (shell.env["UGS_ENV"] || undefined);
  return name === undefined ? undefined : parseEnvironment(name);
}

/** Parses `NAME`, `NAME/Customer` or `NAME/Testing`. @throws Failure if the text has another form */
export function parseEnvironment(text: string): EnvironmentName {
  const environment = parseEnvironmentName(text);
  if (environment) return environment;
  throw usageFailure(
    "an environment has the form NAME, NAME/Customer or NAME/Testing",
    "NAME has 1 to 64 letters, digits, '.', '_' or '-', and does not start with a dot",
  );
}

export function yesOption(): Option {
  return new Option("-y, --yes", "do not ask for confirmation");
}

export function withOut(command: Command): Command {
  return command
    .option("--out <file>", "write the secret to a new file that only its owner can read; default: standard output")
    .option("--force", "replace the file of --out if it exists");
}

/** Returns the file for a secret, or undefined for standard output. @throws Failure if the file cannot be written */
export async function outFileOf({ out, force = false }: Options): Promise<string | undefined> {
  if (out === undefined && force) throw usageFailure("--force needs --out");
  if (out === undefined || out === "-") return undefined;
  await requireWritable(nonEmpty("--out", out), force);
  return out;
}

/** Returns the text of an option. @throws Failure if the text is empty */
export function nonEmpty(option: string, text: string): string {
  if (text.trim() === "") throw usageFailure(`${option} must not be empty`);
  return text;
}
