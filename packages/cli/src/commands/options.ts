import { type Command, InvalidArgumentError, Option } from "commander";
import type { EnvironmentName } from "../../../../gen/usergroup/admin/v1/environment_pb.ts";
import { parseEnvironmentName } from "../../../operator/src/environment-name.ts";
import { usageFailure } from "../failures.ts";
import { requireWritable } from "../files.ts";
import type { Session } from "../session.ts";

/** The option of every list. Default: all. */
export function limitOption(): Option {
  return new Option("--limit <n>", "at most so many; default: all").argParser(countOf);
}

/** A whole number of 1 or more. @throws InvalidArgumentError for anything else */
export function countOf(text: string): number {
  const count = /^\d{1,9}$/.test(text) ? Number(text) : 0;
  if (count < 1) throw new InvalidArgumentError("It must be a whole number of 1 or more.");
  return count;
}

/** The option of every command that acts on one environment. */
export function environmentOption(): Option {
  return new Option(
    "-e, --env <name>",
    "NAME, NAME/Customer or NAME/Testing; for ADMIN_TOKEN, which has none (UGS_ENV)",
  );
}

/** What `environmentOption` gives. */
export interface EnvironmentOption {
  readonly env?: string;
}

/** The environment that the option names; undefined: that of the token. @throws Failure for an invalid name */
export function environmentOf({ shell }: Session, { env }: EnvironmentOption): EnvironmentName | undefined {
  const name = env ?? (shell.env["UGS_ENV"] || undefined);
  return name === undefined ? undefined : parseEnvironment(name);
}

/** Parses `NAME`, `NAME/Customer` or `NAME/Testing`. @throws Failure for any other text */
export function parseEnvironment(text: string): EnvironmentName {
  const environment = parseEnvironmentName(text);
  if (environment) return environment;
  throw usageFailure(
    "an environment is written NAME, NAME/Customer or NAME/Testing; NAME has 1 to 64 letters, digits, '.', '_' or '-', and does not start with a dot",
  );
}

/** The option of every command that ends something for good. */
export function yesOption(): Option {
  return new Option("-y, --yes", "do not ask");
}

/** What `yesOption` gives. */
export interface YesOption {
  readonly yes?: boolean;
}

/** Adds the options for the file of a secret. */
export function withOut(command: Command): Command {
  return command
    .option("--out <file>", "a new file for it, which its owner alone can read; default: standard output")
    .option("--force", "replace the file of --out if there is one");
}

/** The options of `withOut`. */
export interface OutOptions {
  readonly out?: string;
  readonly force?: boolean;
}

/** The file for a secret; undefined: standard output. @throws Failure when it cannot be written, so that no secret is made */
export async function outFileOf({ out, force = false }: OutOptions): Promise<string | undefined> {
  if (out === undefined && force) throw usageFailure("--force is for the file of --out, and none is named");
  if (out === undefined || out === "-") return undefined;
  await requireWritable(nonEmpty("--out", out), force);
  return out;
}

/** The text of an option, which must not be empty. @throws Failure */
export function nonEmpty(option: string, text: string): string {
  if (text.trim() === "") throw usageFailure(`${option} must not be empty`);
  return text;
}
