import { randomUUID } from "node:crypto";
import { open, readFile, rename, rm } from "node:fs/promises";
import { CONTINUE, EXIT, Failure, usageFailure } from "../failures.ts";
import { unreadable, unwritable } from "../files.ts";

/** The shortest pause between two writes of the state, in milliseconds. */
const EVERY_MS = 250;

/**
 * A file with the state of a transfer, so that another process can continue it. It belongs to the run that claimed it last: of
 * two concurrent runs, the earlier one stops.
 */
export class StateFile<T extends object> {
  readonly path: string;
  readonly #sync: () => Promise<void>;
  readonly #run = randomUUID();
  #writtenAt = Number.NEGATIVE_INFINITY;
  #unwritten: T | undefined;

  /** @param sync flushes the files of the transfer to disk. It is called before a state is written */
  constructor(path: string, sync: () => Promise<void>) {
    this.path = path;
    this.#sync = sync;
  }

  /** Reads the state. @returns undefined without an unfinished transfer @throws Failure if it cannot be read */
  async read(): Promise<(T & { readonly run?: string }) | undefined> {
    let text: string;
    try {
      text = await readFile(this.path, "utf8");
    } catch (error) {
      if ((error as { code?: string }).code === "ENOENT") return undefined;
      throw unreadable(this.path, error);
    }
    try {
      return JSON.parse(text) as T & { readonly run?: string };
    } catch {
      throw usageFailure(`${this.path} is not the state of a transfer`, "delete it to start again");
    }
  }

  /** Claims the file for this run. @throws Failure if it cannot be written */
  async claim(state: T): Promise<void> {
    await this.#write(state);
  }

  /**
   * Keeps a state, and writes it unless it has just written one.
   *
   * @throws Failure if it cannot be written, or another run has claimed the file
   */
  async note(state: T): Promise<void> {
    this.#unwritten = state;
    if (performance.now() - this.#writtenAt >= EVERY_MS) await this.flush();
  }

  /** Writes the kept state. @throws Failure if it cannot be written, or another run has claimed the file */
  async flush(): Promise<void> {
    if (!this.#unwritten) return;
    await this.requireOwn();
    await this.#sync();
    await this.#write(this.#unwritten).catch(async (error: unknown) => {
      await this.requireOwn();
      throw error;
    });
    this.#unwritten = undefined;
    this.#writtenAt = performance.now();
  }

  /** @throws Failure if another run has claimed the file */
  async requireOwn(): Promise<void> {
    if (await this.#isOwn()) return;
    throw new Failure(`another run of the same command has claimed ${this.path}`, {
      exitCode: EXIT.conflict,
      hint: "let the other run finish",
    });
  }

  /** Deletes the file of a complete transfer. */
  async remove(): Promise<void> {
    this.#unwritten = undefined;
    if (!(await this.#isOwn())) return;
    await rm(this.path, { force: true });
    await rm(`${this.path}.new`, { force: true });
  }

  async #isOwn(): Promise<boolean> {
    return (await this.read())?.run === this.#run;
  }

  /** Writes the file atomically. */
  async #write(state: T): Promise<void> {
    const temporary = `${this.path}.new`;
    try {
      const file = await open(temporary, "w", 0o600);
      try {
        await file.writeFile(`${JSON.stringify({ ...state, run: this.#run })}\n`);
        await file.datasync();
      } finally {
        await file.close();
      }
      await rename(temporary, this.path);
    } catch (error) {
      throw unwritable(this.path, error, CONTINUE);
    }
  }
}
