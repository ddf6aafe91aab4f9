import { open, rename, rm } from "node:fs/promises";
import { dirname } from "node:path";
import { CONTINUE } from "../failures.ts";
import { refusePresent, unwritable } from "../files.ts";
import { GrowingFile } from "./growing-file.ts";

/** The file of an export. Its name ends in `.part` until it is complete. */
export class OutputFile extends GrowingFile {
  readonly #whole: string;
  readonly #mayReplace: boolean;

  /** @param mayReplace whether to replace an existing file */
  constructor(path: string, mayReplace: boolean) {
    super(`${path}.part`, CONTINUE);
    this.#whole = path;
    this.#mayReplace = mayReplace;
  }

  /** @param bytes the length to continue at; 0: a new file @throws Failure if it cannot be written */
  async begin(bytes: number): Promise<void> {
    await refusePresent(this.#whole, this.#mayReplace);
    if (bytes > 0) return this.continueAt(bytes);
    // An existing file may be a link, or readable by other users.
    await rm(this.path, { force: true }).catch((error: unknown) => {
      throw this.unwritable(error);
    });
  }

  /** Renames the complete file, which must be flushed. @throws Failure */
  async finish(): Promise<void> {
    await refusePresent(this.#whole, this.#mayReplace);
    await this.close();
    try {
      await rename(this.path, this.#whole);
      // This flushes the new name to disk.
      const folder = await open(dirname(this.#whole), "r");
      await folder.sync().finally(() => folder.close());
    } catch (error) {
      throw unwritable(this.#whole, error, CONTINUE);
    }
  }
}
