import { type FileHandle, open, rename, rm, stat } from "node:fs/promises";
import { dirname } from "node:path";
import { CONTINUE, EXIT, Failure, usageFailure } from "../failures.ts";
import { refusePresent, unwritable } from "../files.ts";

/** A file that only its owner can read. Its name ends in `.part` until it is complete, and another run can continue it. */
export class OutputFile {
  readonly path: string;
  readonly #mayReplace: boolean;
  #file: FileHandle | undefined;
  #bytes = 0;

  /** @param mayReplace whether to replace an existing file */
  constructor(path: string, mayReplace: boolean) {
    this.path = path;
    this.#mayReplace = mayReplace;
  }

  /** The length, in bytes. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Opens the file to continue at a position. 0 starts again. @throws Failure if it cannot be written, or is shorter */
  async begin(bytes: number): Promise<void> {
    await refusePresent(this.path, this.#mayReplace);
    const part = this.#part;
    try {
      // An existing file may be a link, or readable by other users.
      if (bytes === 0) await rm(part, { force: true });
      this.#file = await open(part, bytes === 0 ? "wx" : "r+", 0o600);
      await this.#file.chmod(0o600);
      const { size } = await this.#file.stat();
      if (size < bytes) throw usageFailure(`${part} is shorter than before`, "give --restart to start again");
      await this.#file.truncate(bytes);
    } catch (error) {
      await this.close();
      if (bytes > 0 && (error as { code?: string }).code === "ENOENT")
        throw usageFailure(`${part} of the unfinished export does not exist`, "give --restart to start again");
      throw unwritable(part, error, CONTINUE);
    }
    this.#bytes = bytes;
  }

  /** @throws Failure if it cannot be written */
  async write(text: string): Promise<void> {
    const bytes = Buffer.from(text);
    try {
      await writeAll(this.#opened, bytes, this.#bytes);
    } catch (error) {
      throw unwritable(this.#part, error, CONTINUE);
    }
    this.#bytes += bytes.length;
  }

  /** Flushes the file to disk. @throws Failure */
  async sync(): Promise<void> {
    await this.#file?.datasync().catch((error: unknown) => {
      throw unwritable(this.#part, error, CONTINUE);
    });
  }

  /** Renames the complete file. @throws Failure */
  async finish(): Promise<void> {
    await refusePresent(this.path, this.#mayReplace);
    try {
      await this.#opened.sync();
      const [own, named] = [await this.#opened.stat(), await stat(this.#part)];
      if (own.ino !== named.ino)
        throw new Failure(`${this.#part} belongs to an export that started later`, {
          exitCode: EXIT.conflict,
          hint: "let the other export finish",
        });
      await this.close();
      await rename(this.#part, this.path);
      // This flushes the new name to disk.
      const folder = await open(dirname(this.path), "r");
      await folder.sync().finally(() => folder.close());
    } catch (error) {
      throw unwritable(this.path, error, CONTINUE);
    }
  }

  async close(): Promise<void> {
    await this.#file?.close();
    this.#file = undefined;
  }

  get #part(): string {
    return `${this.path}.part`;
  }

  get #opened(): FileHandle {
    if (!this.#file) throw new Error("the file is not open");
    return this.#file;
  }
}

/** Writes all bytes at a position. */
export async function writeAll(file: FileHandle, bytes: Uint8Array, position: number): Promise<void> {
  let written = 0;
  while (written < bytes.length) {
    const { bytesWritten } = await file.write(bytes, written, bytes.length - written, position + written);
    written += bytesWritten;
  }
}
