import { constants, type FileHandle, open } from "node:fs/promises";
import { usageFailure } from "../failures.ts";
import { ignoreMissing, writing } from "../files.ts";

const RESTART = "give --restart to start again";

/**
 * A file to which `ugs` appends. If `ugs` is interrupted, a later run of `ugs` can continue the file. Only the owner
 * can read the file.
 */
export class GrowingFile {
  readonly path: string;
  /** Advice for the user, shown if a write fails. */
  readonly #then: string;
  #file: FileHandle | undefined;
  #bytes = 0;

  constructor(path: string, then: string) {
    this.path = path;
    this.#then = then;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /**
   * Opens the file of an earlier run, and truncates the file.
   *
   * @param bytes the length after the truncation, in bytes
   * @throws Failure if the file does not exist, or is shorter than `bytes`
   */
  async continueAt(bytes: number): Promise<void> {
    await this.writing(async () => {
      this.#file = await open(this.path, constants.O_WRONLY | constants.O_APPEND).catch(ignoreMissing);
      if (!this.#file) throw usageFailure(`${this.path} of the unfinished run does not exist`, RESTART);
      await this.#file.chmod(0o600);
      const { size } = await this.#file.stat();
      if (size < bytes) throw usageFailure(`${this.path} is shorter than at the end of the unfinished run`, RESTART);
      await this.#file.truncate(bytes);
    });
    this.#bytes = bytes;
  }

  /** Appends to the file. The first call creates the file. @throws Failure if the write fails */
  async append(content: string | Uint8Array): Promise<void> {
    const bytes = Buffer.from(content as Uint8Array);
    await this.writing(async () => {
      this.#file ??= await open(this.path, "wx", 0o600);
      await this.#file.appendFile(bytes);
    });
    this.#bytes += bytes.length;
  }

  async sync(): Promise<void> {
    await this.writing(async () => this.#file?.datasync());
  }

  async close(): Promise<void> {
    await this.#file?.close();
    this.#file = undefined;
  }

  protected writing<T>(write: () => Promise<T>): Promise<T> {
    return writing(this.path, this.#then, write);
  }
}
