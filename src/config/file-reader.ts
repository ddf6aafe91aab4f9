import { constants } from "node:fs";
import { open } from "node:fs/promises";
import { buffer } from "node:stream/consumers";
import { setTimeout as pause } from "node:timers/promises";
import { SettingError } from "./parse.ts";

/** The maximum size of a file, in bytes. A Kubernetes Secret has the same maximum size. */
export const MAX_FILE_BYTES = 1_048_576;

const READ_MS = 3000;

const HANGS = "no answer from the file system";

/**
 * The maximum number of hanging reads. A read cannot be cancelled. On Node, a hanging read occupies one of the four
 * threads that also resolve host names.
 */
const MAX_HANGING = 2;

/** The text of a file, or the reason why the file cannot be read. */
export type FileContent = string | SettingError;

interface ReadFile {
  readonly text: string;
  /** The device number. All files of a mount have the same device number. */
  readonly device: number;
}

/**
 * Reads files one by one, with a timeout for each file. While a read hangs, returns an error for each file of the same
 * mount.
 */
export class FileReader {
  readonly #read: typeof readRegularFile;
  readonly #readMs: number;
  readonly #hanging = new Set<string>();
  readonly #devices = new Map<string, number>();

  /**
   * @param read reads one file. Default: reads from disk
   * @param readMs the timeout of one read, in milliseconds
   */
  constructor(read = readRegularFile, readMs = READ_MS) {
    this.#read = read;
    this.#readMs = readMs;
  }

  /** Reads files. Each file is a pair of name and path. Do not call this method again before the call has resolved. */
  async readAll<Name>(files: Iterable<readonly [Name, string]>): Promise<Map<Name, FileContent>> {
    const contents = new Map<Name, FileContent>();
    for (const [name, path] of files) contents.set(name, await this.#contentOf(path));
    return contents;
  }

  async #contentOf(path: string): Promise<FileContent> {
    if (path.includes("-----BEGIN"))
      return new SettingError("contains the content of a file: set it to the path of the file");
    if (this.#isBlocked(path)) return unreadable(path, HANGS);
    this.#hanging.add(path);
    const reading = this.#read(path).finally(() => this.#hanging.delete(path));
    try {
      const file = await Promise.race([reading, pause(this.#readMs, undefined, { ref: false })]);
      if (file === undefined) return unreadable(path, HANGS);
      this.#devices.set(path, file.device);
      return file.text;
    } catch (error) {
      return error instanceof SettingError ? error : unreadable(path, reasonOf(error as Error));
    }
  }

  #isBlocked(path: string): boolean {
    const device = this.#devices.get(path);
    const isOfSameMount = (other: string) => device !== undefined && device === this.#devices.get(other);
    return this.#hanging.has(path) || this.#hanging.size >= MAX_HANGING || [...this.#hanging].some(isOfSameMount);
  }
}

/**
 * Reads a regular file.
 *
 * @throws SettingError for a pipe, a device, or a file larger than `MAX_FILE_BYTES`
 * @throws the error of the system if the system cannot open or read the file
 */
async function readRegularFile(path: string): Promise<ReadFile> {
  // Without O_NONBLOCK, opening a pipe blocks until a program opens the pipe for writing.
  const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    const stats = await file.stat();
    if (!stats.isFile()) throw unreadable(path, "not a regular file");
    // `end` is inclusive. If a file is too large, the stream therefore reads one byte beyond the limit.
    const bytes = await buffer(file.createReadStream({ end: MAX_FILE_BYTES, autoClose: false }));
    if (bytes.length > MAX_FILE_BYTES)
      throw new SettingError(`is too large: more than ${MAX_FILE_BYTES} bytes ${at(path)}`);
    return { text: bytes.toString("utf8"), device: stats.dev };
  } finally {
    await file.close();
  }
}

/** Returns the code of a system error. Deno throws an error without a code if its permissions do not allow a read. */
function reasonOf({ name, code }: NodeJS.ErrnoException): string | undefined {
  return name === "NotCapable" ? "permissions.default.read in deno.json does not allow reads" : code;
}

function unreadable(path: string, why = "unknown error"): SettingError {
  return new SettingError(`cannot be read: ${why} ${at(path)}`);
}

/** Formats a path for an error. Hides a value that may be a secret. */
function at(path: string): string {
  const isPath = /^\.{0,2}\/[\w./@-]*$|^[A-Za-z]:\\/.test(path);
  return isPath ? `at ${path}` : "at this path. Is the value a path?";
}
