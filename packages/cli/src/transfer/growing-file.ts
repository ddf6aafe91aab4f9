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
  bytes = 0;
  readonly #then: string;
  #file: FileHandle | undefined;

  /** @param then the advice that the user sees after a failed write */
  constructor(path: string, then: string) {
    this.path = path;
    this.#then = then;
  }

  /**
   * Opens the file of an earlier run, and truncates the file to `bytes`. If `bytes` is 0, calls `startNew` instead.
   *
   * @param bytes the length of the file after the truncation, in bytes
   * @throws Failure if the file of the earlier run does not exist, or is shorter than `bytes`
   */
  async begin(bytes: number, startNew: () => Promise<void>): Promise<void> {
    await this.#writing(async () => {
      if (bytes === 0) return startNew();
      this.#file = await open(this.path, constants.O_WRONLY | constants.O_APPEND).catch(ignoreMissing);
      if (!this.#file) throw usageFailure(`${this.path} of the unfinished run does not exist`, RESTART);
      await this.#file.chmod(0o600);
      const { size } = await this.#file.stat();
      if (size < bytes) throw usageFailure(`${this.path} is shorter than at the end of the unfinished run`, RESTART);
      await this.#file.truncate(bytes);
    });
    this.bytes = bytes;
  }

  /** Appends to the file. The first call creates the file. @throws Failure if the write fails */
  async append(content: string | Uint8Array): Promise<void> {
    const bytes = Buffer.from(content as Uint8Array);
    await this.#writing(async () => {
      this.#file ??= await open(this.path, "wx", 0o600);
      await this.#file.appendFile(bytes);
    });
    this.bytes += bytes.length;
  }

  async sync(): Promise<void> {
    await this.#writing(async () => this.#file?.datasync());
  }

  async close(): Promise<void> {
    await this.#file?.close();
    this.#file = undefined;
  }

  #writing<T>(write: () => Promise<T>): Promise<T> {
    return writing(this.path, this.#then, write);
  }
}
