import { open, rename, rm } from "node:fs/promises";
import { dirname } from "node:path";
import { CONTINUE } from "../failures.ts";
import { refusePresent, writing } from "../files.ts";
import { GrowingFile } from "./growing-file.ts";

/** The file of an export. Until the export is complete, the name of the file ends in `.part`. */
export class OutputFile extends GrowingFile {
  readonly #whole: string;
  readonly #mayReplace: boolean;

  constructor(path: string, mayReplace: boolean) {
    super(`${path}.part`, CONTINUE);
    this.#whole = path;
    this.#mayReplace = mayReplace;
  }

  /**
   * Prepares the file.
   *
   * @param bytes the length of the file at which the export continues; 0 if a new export starts
   * @throws Failure if the file cannot be opened or deleted, or if the exported file already exists and must not be
   *   replaced
   */
  async begin(bytes: number): Promise<void> {
    await refusePresent(this.#whole, this.#mayReplace);
    if (bytes > 0) return this.continueAt(bytes);
    // Do not write to an existing file, because it may be a link, or readable by other users.
    await this.writing(() => rm(this.path, { force: true }));
  }

  /**
   * Renames the complete file to its final name. Call `sync` first.
   *
   * @throws Failure if the file cannot be renamed, or if the exported file already exists and must not be replaced
   */
  async finish(): Promise<void> {
    await refusePresent(this.#whole, this.#mayReplace);
    await this.close();
    await writing(this.#whole, CONTINUE, async () => {
      await rename(this.path, this.#whole);
      // Flushes the directory entry to disk.
      const folder = await open(dirname(this.#whole), "r");
      await folder.sync().finally(() => folder.close());
    });
  }
}
