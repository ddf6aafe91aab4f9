import { type FileHandle, open, rename, rm, stat } from "node:fs/promises";
import { dirname } from "node:path";
import { EXIT, Failure, usageFailure } from "../failures.ts";
import { refusePresent, unwritable } from "../files.ts";

const AGAIN = "run the same command again to go on where it was cut off";

/**
 * A file that only its owner can read. It gets its name when it is complete; until then its name ends in `.part`, and
 * another run can continue it.
 */
export class OutputFile {
  readonly path: string;
  readonly #mayReplace: boolean;
  #file: FileHandle | undefined;
  #bytes = 0;

  /** @param mayReplace whether a file that is there is replaced */
  constructor(path: string, mayReplace: boolean) {
    this.path = path;
    this.#mayReplace = mayReplace;
  }

  /** The length so far. */
  get bytes(): number {
    return this.#bytes;
  }

  /**
   * Opens the file to continue after so many bytes; 0 starts over. @throws Failure when it cannot be written, or is
   * shorter
   */
  async begin(bytes: number): Promise<void> {
    await refusePresent(this.path, this.#mayReplace);
    const part = this.#part;
    try {
      // A file that is there already may be a link, or readable by others.
      if (bytes === 0) await rm(part, { force: true });
      this.#file = await open(part, bytes === 0 ? "wx" : "r+", 0o600);
      await this.#file.chmod(0o600);
      const { size } = await this.#file.stat();
      if (size < bytes) throw usageFailure(`${part} is shorter than it was`, "give --restart to start over");
      await this.#file.truncate(bytes);
    } catch (error) {
      await this.close();
      if (bytes > 0 && (error as { code?: string }).code === "ENOENT")
        throw usageFailure(`${part}, which an export began, is not there`, "give --restart to start over");
      throw unwritable(part, error, AGAIN);
    }
    this.#bytes = bytes;
  }

  /** @throws Failure when it cannot be written */
  async write(text: string): Promise<void> {
    const bytes = Buffer.from(text);
    try {
      await writeAll(this.#opened, bytes, this.#bytes);
    } catch (error) {
      throw unwritable(this.#part, error, AGAIN);
    }
    this.#bytes += bytes.length;
  }

  /** Makes sure that what was written survives a crash of the machine. @throws Failure when that fails */
  async sync(): Promise<void> {
    await this.#file?.datasync().catch((error: unknown) => {
      throw unwritable(this.#part, error, AGAIN);
    });
  }

  /** Gives the complete file its name. @throws Failure when that fails */
  async finish(): Promise<void> {
    await refusePresent(this.path, this.#mayReplace);
    try {
      await this.#opened.sync();
      const [own, named] = [await this.#opened.stat(), await stat(this.#part)];
      if (own.ino !== named.ino)
        throw new Failure(`${this.#part} is of another export, which began later`, {
          exitCode: EXIT.conflict,
          hint: "let that one go on",
        });
      await this.close();
      await rename(this.#part, this.path);
      // Makes the name survive a crash of the machine as well.
      const folder = await open(dirname(this.path), "r");
      await folder.sync().finally(() => folder.close());
    } catch (error) {
      throw unwritable(this.path, error, AGAIN);
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

/** Writes all bytes at a position, in as many writes as it takes. */
export async function writeAll(file: FileHandle, bytes: Uint8Array, position: number): Promise<void> {
  let written = 0;
  while (written < bytes.length) {
    const { bytesWritten } = await file.write(bytes, written, bytes.length - written, position + written);
    written += bytesWritten;
  }
}
