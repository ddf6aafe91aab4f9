import { randomUUID } from "node:crypto";
import { type FileHandle, mkdir, open, readFile, rename, rm, stat } from "node:fs/promises";
import { dirname } from "node:path";
import { quoted } from "../../operator/src/input.ts";
import { usageFailure } from "./failures.ts";

/**
 * Reads a file with a secret.
 *
 * @throws Failure when it cannot be read, or others can read it as well
 */
export async function readSecretFile(path: string): Promise<string> {
  const file = await open(path, "r").catch((error: unknown) => {
    throw unreadable(path, error);
  });
  try {
    await refuseShared(file, path);
    return await file.readFile("utf8");
  } catch (error) {
    throw unreadable(path, error);
  } finally {
    await file.close();
  }
}

/**
 * Refuses a file that others can read. A file of this user must be readable by this user alone. A file of another user,
 * such as a secret that Kubernetes mounts, may be readable by its group, because that may be how this user can read it.
 * Whatever is not a file, such as a pipe, is accepted.
 */
async function refuseShared(file: FileHandle, path: string): Promise<void> {
  const stat = await file.stat();
  const forbidden = stat.uid === process.getuid?.() ? 0o077 : 0o007;
  if (!stat.isFile() || (stat.mode & forbidden) === 0) return;
  const mode = (stat.mode & 0o777).toString(8).padStart(3, "0");
  throw usageFailure(`${path} holds a secret, and others can read it (mode ${mode})`, `run: chmod 600 ${quoted(path)}`);
}

/** Reads a file without a secret. @throws Failure when it cannot be read */
export async function readPlainFile(path: string): Promise<string> {
  return readFile(path, "utf8").catch((error: unknown) => {
    throw unreadable(path, error);
  });
}

/** A Failure that says why a file cannot be read; anything but an error of the system is returned as it is. */
export function unreadable(path: string, error: unknown): unknown {
  const { code } = error as { code?: unknown };
  if (typeof code !== "string") return error;
  const words: { readonly [code: string]: string } = {
    ENOENT: "there is no such file",
    EACCES: "it may not be read",
    EISDIR: "it is a folder",
    ENOTDIR: "there is no such file",
  };
  return usageFailure(`cannot read ${path}: ${words[code] ?? code}`);
}

/**
 * Writes a file that its owner alone can read: as a whole or not at all. Missing folders are created, for the owner
 * alone as well.
 *
 * @throws Failure when it cannot be written
 */
export async function writeSecretFile(path: string, text: string): Promise<void> {
  const temporary = `${path}.${randomUUID()}`;
  try {
    await mkdir(dirname(path), { recursive: true, mode: 0o700 });
    const file = await open(temporary, "wx", 0o600);
    try {
      await file.writeFile(text);
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(temporary, path);
  } catch (error) {
    await rm(temporary, { force: true }).catch(() => {});
    throw unwritable(path, error, "nothing was changed");
  }
}

/** Refuses to write a file in place of one that is there, or in place of a folder or device. @throws Failure */
export async function refusePresent(path: string, mayReplace: boolean): Promise<void> {
  const present = await stat(path).catch(() => undefined);
  if (present?.isDirectory()) throw usageFailure(`${path} is a folder`, "name a file in it");
  if (present && !present.isFile()) throw usageFailure(`${path} is no file`, "name another one");
  if (present && !mayReplace)
    throw usageFailure(`${path} is there already`, "name another file, or give --force to replace it");
}

/** Finds out whether a file can be written before there is something to write. @throws Failure when it cannot */
export async function requireWritable(path: string, mayReplace: boolean): Promise<void> {
  await refusePresent(path, mayReplace);
  const trial = `${path}.${randomUUID()}`;
  try {
    await (await open(trial, "wx", 0o600)).close();
    await rm(trial);
  } catch (error) {
    throw unwritable(path, error, "nothing was done");
  }
}

/** What to do about the errors of the system when a file is written. */
const WRITE_ERRORS: { readonly [code: string]: readonly [words: string, hint: string] } = {
  ENOSPC: ["its disk is full", "make room on it"],
  EDQUOT: ["the quota of its disk is used up", "make room on it"],
  EROFS: ["its disk can only be read", "name another place"],
  EACCES: ["it may not be written", "look at its rights and those of its folder"],
  EPERM: ["it may not be written", "look at its rights and those of its folder"],
  ENOENT: ["there is no such folder", "make it"],
  ENOTDIR: ["there is no such folder", "make it"],
  EISDIR: ["it is a folder", "name a file in it"],
};

/**
 * A Failure that says why a file cannot be written; anything but an error of the system is returned as it is.
 *
 * @param then what to do after that
 */
export function unwritable(path: string, error: unknown, then: string): unknown {
  const { code } = error as { code?: unknown };
  if (typeof code !== "string") return error;
  const [words, hint] = WRITE_ERRORS[code] ?? ["it failed", "look at its folder and its disk"];
  return usageFailure(`cannot write ${path}: ${words} (${code})`, `${hint}; ${then}`);
}
