import { randomUUID } from "node:crypto";
import { open, readFile, rename, rm } from "node:fs/promises";
import { EXIT, Failure, usageFailure } from "../failures.ts";
import { unreadable, unwritable } from "../files.ts";

/** The shortest pause between two writes of the state, in milliseconds. */
const EVERY_MS = 250;

/**
 * A file with the state of a transfer, from which another process can continue it. It belongs to the run that claimed
 * it last: when two run at once, the earlier one finds that out and stops.
 */
export class StateFile<T extends object> {
  readonly path: string;
  readonly #sync: () => Promise<void>;
  readonly #run = randomUUID();
  #writtenAt = Number.NEGATIVE_INFINITY;
  #unwritten: T | undefined;

  /** @param sync makes the files that a state describes survive a crash; called before the state is written */
  constructor(path: string, sync: () => Promise<void>) {
    this.path = path;
    this.#sync = sync;
  }

  /** The state; undefined when no transfer is under way. @throws Failure when it cannot be read, or is not a state */
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
      throw usageFailure(`${this.path} is not the state of a transfer`, "remove it to start over");
    }
  }

  /** Claims the file for this run. @throws Failure when it cannot be written */
  async claim(state: T): Promise<void> {
    await this.#write(state);
  }

  /**
   * Notes a state, and writes it unless one was written a moment ago.
   *
   * @throws Failure when it cannot be written, or another run has claimed it
   */
  async note(state: T): Promise<void> {
    this.#unwritten = state;
    if (performance.now() - this.#writtenAt >= EVERY_MS) await this.flush();
  }

  /** Writes the state that was noted. @throws Failure when it cannot be written, or another run has claimed it */
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

  /** @throws Failure when another run has claimed it */
  async requireOwn(): Promise<void> {
    if (await this.#isOwn()) return;
    throw new Failure(`another run of the same command has taken over ${this.path}`, {
      exitCode: EXIT.conflict,
      hint: "let that one go on: it does what is left",
    });
  }

  /** Removes the file once the transfer is complete. */
  async remove(): Promise<void> {
    this.#unwritten = undefined;
    if (!(await this.#isOwn())) return;
    await rm(this.path, { force: true });
    await rm(`${this.path}.new`, { force: true });
  }

  async #isOwn(): Promise<boolean> {
    return (await this.read())?.run === this.#run;
  }

  /** Writes the file as a whole or not at all. */
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
      throw unwritable(this.path, error, "run the same command again to go on where it was cut off");
    }
  }
}
