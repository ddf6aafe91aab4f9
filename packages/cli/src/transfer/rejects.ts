import { Buffer } from "node:buffer";
import { type FileHandle, lstat, open, rename } from "node:fs/promises";
import { usageFailure } from "../failures.ts";
import { unwritable } from "../files.ts";
import { printable } from "../output/printable.ts";
import { REMARK } from "./header.ts";
import { writeAll } from "./output-file.ts";

/** A record that was not imported, and why. */
export interface Reject {
  readonly line: number;
  readonly raw: Buffer | undefined;
  readonly reason: string;
}

/**
 * The file of records that were not imported: the first lines of the input, then each record unchanged after a remark
 * with its line and the reason. Once the records are corrected, the file can be imported. It is created when there is
 * something to write, and only its owner can read it.
 */
export class RejectsFile {
  readonly path: string;
  readonly #firstLines: readonly string[];
  #file: FileHandle | undefined;
  /** The length of the file. */
  #bytes = 0;

  constructor(path: string, firstLines: readonly string[]) {
    this.path = path;
    this.#firstLines = firstLines;
  }

  /** The length of the file, in bytes. */
  get bytes(): number {
    return this.#bytes;
  }

  /**
   * Begins the file. A file of an earlier import is kept under another name. @param bytes of the file to continue; 0:
   * none
   */
  async begin(bytes: number): Promise<void> {
    try {
      const present = await lstat(this.path).catch(ignoreMissing);
      // A folder, or a device such as /dev/null, must not be given another name.
      if (present && !present.isFile()) throw usageFailure(`${this.path} is not a file`, "name another one");
      if (bytes === 0) return present && (await rename(this.path, `${this.path}.old`));
      if ((present?.size ?? 0) < bytes)
        throw usageFailure(`${this.path} is shorter than it was`, "give --restart to start over");
      this.#file = await open(this.path, "r+");
      // What was written after the last saved state will be written again.
      await this.#file.truncate(bytes);
      this.#bytes = bytes;
    } catch (error) {
      throw this.#unwritable(error);
    }
  }

  /** @throws Failure when they cannot be written */
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

  /** Makes sure that what was added survives a crash of the machine. @throws Failure when that fails */
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
    return unwritable(this.path, error, "run the same command again to go on, or name another file by --rejects");
  }
}

function ignoreMissing(error: unknown): undefined {
  if ((error as { code?: string }).code !== "ENOENT") throw error;
}
