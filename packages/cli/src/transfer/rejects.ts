import { Buffer } from "node:buffer";
import { lstat, rename } from "node:fs/promises";
import { CONTINUE, usageFailure } from "../failures.ts";
import { ignoreMissing } from "../files.ts";
import { printable } from "../output/printable.ts";
import { GrowingFile } from "./growing-file.ts";
import { REMARK } from "./header.ts";
import type { Done } from "./importer.ts";

/**
 * The file of rejected records. A user can correct and import the file. The file starts with the first lines of the
 * input. Before each record, a line that starts with `REMARK` contains the line number and the reason. The file is
 * created when the first record is rejected.
 */
export class RejectsFile extends GrowingFile {
  readonly #firstLines: readonly string[];

  constructor(path: string, firstLines: readonly string[]) {
    super(path, `${CONTINUE}, or give another file with --rejects`);
    this.#firstLines = firstLines;
  }

  /**
   * Prepares the file. If a new import starts, renames the file of an earlier import.
   *
   * @param bytes the length of the file when the unfinished import stored its state; 0 if a new import starts
   */
  override begin(bytes: number): Promise<void> {
    return super.begin(bytes, async () => {
      const present = await lstat(this.path).catch(ignoreMissing);
      // A directory or a device such as /dev/null must not be renamed.
      if (present && !present.isFile()) throw usageFailure(`${this.path} is not a regular file`, "give another path");
      if (present) await rename(this.path, `${this.path}.old`);
    });
  }

  async add(done: readonly Done[]): Promise<void> {
    const rejects = done.filter(({ result }) => result.fate === "rejected");
    if (rejects.length === 0) return;
    const parts: Uint8Array[] = this.bytes === 0 ? this.#firstLines.map((line) => Buffer.from(`${line}\n`)) : [];
    for (const { record, result } of rejects) {
      parts.push(Buffer.from(`${REMARK}line ${record.line}: ${printable(result.reason ?? "")}\n`));
      if (record.raw) parts.push(record.raw, Buffer.from("\n"));
    }
    await this.append(Buffer.concat(parts));
  }
}
