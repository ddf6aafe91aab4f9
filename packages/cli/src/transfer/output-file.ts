import { type FileHandle, open, rename, rm, stat } from "node:fs/promises";
import { dirname } from "node:path";
import { type Failure, usageFailure } from "../failures.ts";
import { printable } from "../output/printable.ts";

/**
 * A file that only its owner can read, and that is there once it is whole: until then it is `.part`, which another run can
 * go on with.
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

  /** How long it is so far. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Opens it to go on after so many bytes; 0 begins anew. @throws Failure when it cannot be written, or is shorter */
  async begin(bytes: number): Promise<void> {
    await this.#refusePresent();
    const part = this.#part;
    try {
      // One that is there may be a link, or open to others.
      if (bytes === 0) await rm(part, { force: true });
      this.#file = await open(part, bytes === 0 ? "wx" : "r+", 0o600);
      await this.#file.chmod(0o600);
      const { size } = await this.#file.stat();
      if (size < bytes) throw usageFailure(`${printable(part)} is shorter than it was`, "give --restart to begin anew");
      await this.#file.truncate(bytes);
    } catch (error) {
      await this.close();
      throw unwritable(part, error);
    }
    this.#bytes = bytes;
  }

  /** @throws Failure when it cannot be written */
  async write(text: string): Promise<void> {
    const bytes = Buffer.from(text);
    try {
      await writeAll(this.#opened, bytes, this.#bytes);
    } catch (error) {
      throw unwritable(this.#part, error);
    }
    this.#bytes += bytes.length;
  }

  /** It is whole. @throws Failure when it cannot be given its name */
  async finish(): Promise<void> {
    await this.#refusePresent();
    try {
      await this.#opened.sync();
      await this.close();
      await rename(this.#part, this.path);
      // That the name lasts as well.
      const folder = await open(dirname(this.path), "r");
      await folder.sync().finally(() => folder.close());
    } catch (error) {
      throw unwritable(this.path, error);
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

  async #refusePresent(): Promise<void> {
    const present = await stat(this.path).catch(() => undefined);
    if (present?.isDirectory()) throw usageFailure(`${printable(this.path)} is a folder`, "name a file in it");
    if (present && !this.#mayReplace)
      throw usageFailure(
        `${printable(this.path)} is there already`,
        "name another file, or give --force to replace it",
      );
  }
}

/** Writes all bytes at a position, however many a write takes. */
export async function writeAll(file: FileHandle, bytes: Uint8Array, position: number): Promise<void> {
  let written = 0;
  while (written < bytes.length) {
    const { bytesWritten } = await file.write(bytes, written, bytes.length - written, position + written);
    written += bytesWritten;
  }
}

function unwritable(path: string, error: unknown): Failure {
  const { code } = error as { code?: string };
  if (code === undefined) throw error;
  return usageFailure(
    `cannot write ${printable(path)}: ${code}`,
    "look at the rights of its folder and at the room on its disk, then run the same command again",
  );
}
