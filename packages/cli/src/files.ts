import { randomUUID } from "node:crypto";
import { type FileHandle, mkdir, open, readFile, rename, rm, stat } from "node:fs/promises";
import { dirname } from "node:path";
import { getSystemErrorMap } from "node:util";
import { quoted } from "../../operator/src/input.ts";
import { usageFailure } from "./failures.ts";

/** Reads a file that contains a secret. @throws Failure if the file cannot be read, or if other users can read it */
export async function readSecretFile(path: string): Promise<string> {
  return reading(path, async () => {
    const file = await open(path, "r");
    try {
      await refuseShared(file, path);
      return await file.readFile("utf8");
    } finally {
      await file.close();
    }
  });
}

/**
 * Rejects a file that other users can read. Accepts pipes. If another user owns the file, the Unix group of the file
 * may have access, because the current user may be a member of this group. An example is a mounted Kubernetes secret.
 */
async function refuseShared(file: FileHandle, path: string): Promise<void> {
  const stat = await file.stat();
  const forbidden = stat.uid === process.getuid?.() ? 0o077 : 0o007;
  if (!stat.isFile() || (stat.mode & forbidden) === 0) return;
  const mode = (stat.mode & 0o777).toString(8).padStart(3, "0");
  throw usageFailure(
    `${path} contains a secret, and other users can read it (mode ${mode})`,
    `run: chmod 600 ${quoted(path)}`,
  );
}

/** Reads a file that contains no secret. @throws Failure if the file cannot be read */
export function readPlainFile(path: string): Promise<string> {
  return reading(path, () => readFile(path, "utf8"));
}

/** Calls a function that reads a file. @throws Failure if a system error occurs */
export async function reading<T>(path: string, read: () => Promise<T>): Promise<T> {
  try {
    return await read();
  } catch (error) {
    const words = systemWords(error);
    throw words === undefined ? error : usageFailure(`cannot read ${path}: ${words}`);
  }
}

/** Calls a function that writes a file. @throws Failure with `hint` if a system error occurs */
export async function writing<T>(path: string, hint: string, write: () => Promise<T>): Promise<T> {
  try {
    return await write();
  } catch (error) {
    throw unwritable(path, error, hint);
  }
}

/** Ignores the error `ENOENT`, which means that a file does not exist. @throws any other error */
export function ignoreMissing(error: unknown): undefined {
  if ((error as { code?: string }).code !== "ENOENT") throw error;
}

/** Converts a system error of a write to a failure. Returns any other error unchanged. */
export function unwritable(path: string, error: unknown, hint: string): unknown {
  const words = systemWords(error);
  return words === undefined ? error : usageFailure(`cannot write ${path}: ${words}`, hint);
}

function systemWords(error: unknown): string | undefined {
  const { errno = 0 } = error as { readonly errno?: number };
  const [code, words] = getSystemErrorMap().get(errno) ?? [];
  return code && `${words} (${code})`;
}

/** Like `writeAtomically`, but also creates missing directories. These directories get the mode 0700. */
export async function writeSecretFile(path: string, text: string): Promise<void> {
  const hint = "nothing was changed";
  await writing(path, hint, () => mkdir(dirname(path), { recursive: true, mode: 0o700 }));
  await writeAtomically(path, text, hint);
}

/** Writes a file atomically with mode 0600. @throws Failure with `hint` if the file cannot be written */
export async function writeAtomically(path: string, text: string, hint: string): Promise<void> {
  const temporary = `${path}.${randomUUID()}`;
  try {
    const file = await open(temporary, "w", 0o600);
    try {
      await file.writeFile(text);
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(temporary, path);
  } catch (error) {
    await rm(temporary, { force: true }).catch(() => {});
    throw unwritable(path, error, hint);
  }
}

/**
 * Checks that nothing exists at a path. If `mayReplace` is true, a regular file may exist at the path.
 *
 * @throws Failure if the check fails
 */
export async function refusePresent(path: string, mayReplace: boolean): Promise<void> {
  const present = await stat(path).catch(() => undefined);
  if (present?.isDirectory()) throw usageFailure(`${path} is a directory`, "give a file in this directory");
  if (present && !present.isFile()) throw usageFailure(`${path} is not a regular file`, "give another path");
  if (present && !mayReplace)
    throw usageFailure(`${path} already exists`, "give another path, or --force to replace this file");
}

/**
 * Checks that a file can be written. Call this function before you create a secret.
 *
 * @throws Failure if the file cannot be written, or if the file exists and `mayReplace` is false
 */
export async function requireWritable(path: string, mayReplace: boolean): Promise<void> {
  await refusePresent(path, mayReplace);
  const trial = `${path}.${randomUUID()}`;
  await writing(path, "nothing was done", async () => {
    await (await open(trial, "wx", 0o600)).close();
    await rm(trial);
  });
}
