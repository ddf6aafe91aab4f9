import { Buffer } from "node:buffer";
import { type FileHandle, lstat, open, rename } from "node:fs/promises";
import { CONTINUE, usageFailure } from "../failures.ts";
import { unwritable } from "../files.ts";
import { printable } from "../output/printable.ts";
import { REMARK } from "./header.ts";
import { writeAll } from "./output-file.ts";

/** A rejected record. */
export interface Reject {
  readonly line: number;
  readonly raw: Buffer | undefined;
  readonly reason: string;
}

/**
 * The file of rejected records: the first lines of the input, then each record after a remark with its line and the reason.
 * The user can correct and import it. It is created with the first reject, and only its owner can read it.
 */
export class RejectsFile {
  readonly path: string;
  readonly #firstLines: readonly string[];
  #file: FileHandle | undefined;
  #bytes = 0;

  constructor(path: string, firstLines: readonly string[]) {
    this.path = path;
    this.#firstLines = firstLines;
  }

  /** The length of the file, in bytes. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Starts the file, and renames the file of an earlier import. @param bytes the length to continue at; 0: a new file */
  async begin(bytes: number): Promise<void> {
    try {
      const present = await lstat(this.path).catch(ignoreMissing);
      // A directory or a device such as /dev/null must not be renamed.
      if (present && !present.isFile()) throw usageFailure(`${this.path} is not a regular file`, "give another path");
      if (bytes === 0) return present && (await rename(this.path, `${this.path}.old`));
      if ((present?.size ?? 0) < bytes)
        throw usageFailure(`${this.path} is shorter than before`, "give --restart to start again");
      this.#file = await open(this.path, "r+");
      // Everything after the last saved state is written again.
      await this.#file.truncate(bytes);
      this.#bytes = bytes;
    } catch (error) {
      throw this.#unwritable(error);
    }
  }

  /** @throws Failure if they cannot be written */
  async add(rejects: readonly Reject[]): Promise<void> {
    if (rejects.length === 0) return;
    const parts: Uint8Array[] =
      this.#bytes === 0 ? [Buffer.from(this.#firstLines.map((line) => `${line}\n`).join(""))] : [];
    for (const { line, raw, reason } of rejects) {
      parts.push(Buffer.from(`${REMARK}line ${line}: ${printable(reason)}\n`));
      if (raw) parts.push(raw, Buffer.from("\n"));
    }
    const bytes = Buffer.concat(parts);
    try {
      this.#file ??= await open(this.path, "wx", 0o600);
      await writeAll(this.#file, bytes, this.#bytes);
    } catch (error) {
      throw this.#unwritable(error);
    }
    this.#bytes += bytes.length;
  }

  /** Flushes the file to disk. @throws Failure */
  async sync(): Promise<void> {
    await this.#file?.datasync().catch((error: unknown) => {
      throw this.#unwritable(error);
    });
  }

  async close(): Promise<void> {
    await this.#file?.close();
    this.#file = undefined;
  }

  #unwritable(error: unknown): unknown {
    return unwritable(this.path, error, `${CONTINUE}, or give another file with --rejects`);
  }
}

function ignoreMissing(error: unknown): undefined {
  if ((error as { code?: string }).code !== "ENOENT") throw error;
}
