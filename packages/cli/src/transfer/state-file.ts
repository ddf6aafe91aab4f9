import { open, readFile, rename, rm } from "node:fs/promises";
import { usageFailure } from "../failures.ts";
import { printable } from "../output/printable.ts";

/** How often the state of what is under way is written at most, in milliseconds. */
const EVERY_MS = 250;

/** A file with the state of what is under way, by which another process goes on with it. */
export class StateFile<T extends object> {
  readonly path: string;
  #writtenAt = Number.NEGATIVE_INFINITY;
  #unwritten: T | undefined;

  constructor(path: string) {
    this.path = path;
  }

  /** The state; undefined: nothing is under way. @throws Failure when it cannot be read, or is none */
  async read(): Promise<T | undefined> {
    let text: string;
    try {
      text = await readFile(this.path, "utf8");
    } catch (error) {
      const { code } = error as { code?: string };
      if (code === "ENOENT") return undefined;
      throw usageFailure(`cannot read ${printable(this.path)}: ${code}`);
    }
    try {
      return JSON.parse(text) as T;
    } catch {
      throw usageFailure(`${printable(this.path)} is not the state of a transfer`, "remove it to begin anew");
    }
  }

  /** Notes a state, and writes it unless one was written a moment ago. @throws Failure when it cannot be written */
  async note(state: T): Promise<void> {
    this.#unwritten = state;
    if (performance.now() - this.#writtenAt >= EVERY_MS) await this.flush();
  }

  /** Writes the state that was noted: at once as a whole. @throws Failure when it cannot be written */
  async flush(): Promise<void> {
    if (!this.#unwritten) return;
    const temporary = `${this.path}.new`;
    try {
      const file = await open(temporary, "w", 0o600);
      try {
        await file.writeFile(`${JSON.stringify(this.#unwritten)}\n`);
        await file.datasync();
      } finally {
        await file.close();
      }
      await rename(temporary, this.path);
    } catch (error) {
      const { code, message } = error as { code?: string; message?: string };
      throw usageFailure(
        `cannot write ${printable(this.path)}: ${code ?? message}`,
        "make room, or let it be written, then run the same command again",
      );
    }
    this.#unwritten = undefined;
    this.#writtenAt = performance.now();
  }

  /** Nothing is under way any longer. */
  async remove(): Promise<void> {
    this.#unwritten = undefined;
    await rm(this.path, { force: true });
    await rm(`${this.path}.new`, { force: true });
  }
}
