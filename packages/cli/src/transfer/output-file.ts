import { open, rename, rm } from "node:fs/promises";
import { dirname } from "node:path";
import { CONTINUE } from "../failures.ts";
import { refusePresent, unwritable } from "../files.ts";
import { GrowingFile } from "./growing-file.ts";

/** The file of an export. While the export is incomplete, the name of the file ends in `.part`. */
export class OutputFile extends GrowingFile {
  readonly #whole: string;
  readonly #mayReplace: boolean;

  constructor(path: string, mayReplace: boolean) {
    super(`${path}.part`, CONTINUE);
    this.#whole = path;
    this.#mayReplace = mayReplace;
  }

  /** @param bytes the length at which the export continues; 0 for a new file @throws Failure if the write fails */
  async begin(bytes: number): Promise<void> {
    await refusePresent(this.#whole, this.#mayReplace);
    if (bytes > 0) return this.continueAt(bytes);
    // Deletes an existing file, because it may be a link, or be readable by other users.
    await rm(this.path, { force: true }).catch((error: unknown) => {
      throw this.unwritable(error);
    });
  }

  /** Gives the complete file its final name. Flush the file first. @throws Failure */
  async finish(): Promise<void> {
    await refusePresent(this.#whole, this.#mayReplace);
    await this.close();
    try {
      await rename(this.path, this.#whole);
      // Flushes the directory entry to disk.
      const folder = await open(dirname(this.#whole), "r");
      await folder.sync().finally(() => folder.close());
    } catch (error) {
      throw unwritable(this.#whole, error, CONTINUE);
    }
  }
}
