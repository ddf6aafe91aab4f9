import { randomUUID } from "node:crypto";
import { readFile, rm } from "node:fs/promises";
import { isObject } from "../../../operator/src/fields.ts";
import { CONTINUE, EXIT, Failure, usageFailure } from "../failures.ts";
import { ignoreMissing, reading, writeAtomically } from "../files.ts";
import { parsedJson } from "../json.ts";

/** The input, destination and options of a transfer. Only a run with an equal binding can continue the transfer. */
export type Binding = { readonly [difference in keyof typeof DIFFERENCES]?: string | undefined };

/** Texts for the differences between the bindings of two runs. */
const DIFFERENCES = {
  input: () => "of another version of the input file",
  url: (url: string) => `with the service ${url}`,
  environment: (name: string) => `with the environment ${name}`,
  rejects: (path: string) => `with rejects in ${path}`,
  options: (text: string) => `with other options: ${text}`,
};

interface State {
  readonly binding: Binding;
}

/**
 * A file with the state of an unfinished transfer (an import or an export). A later run can continue the transfer.
 * The file belongs to the last run that claimed it. If two runs use the file at the same time, the earlier run stops.
 */
export class StateFile<T extends State> {
  readonly path: string;
  readonly #sync: () => Promise<void>;
  readonly #run = randomUUID();
  #state: T | undefined;

  /** @param sync flushes the data files of the transfer to disk. `note` calls `sync` before it writes the state */
  constructor(path: string, sync: () => Promise<void>) {
    this.path = path;
    this.#sync = sync;
  }

  /**
   * Claims the file and runs a transfer. If the transfer finishes, and no other run has claimed the file, deletes the
   * file.
   *
   * @param transfer receives the state of the unfinished transfer. Receives undefined if there is no unfinished
   *   transfer, or if `isRestart` is set
   * @throws Failure if the unfinished transfer has another binding, or if the file cannot be read or written
   */
  async run<R>(
    { binding, isRestart }: { readonly binding: Binding; readonly isRestart: boolean },
    transfer: (before: T | undefined) => Promise<R>,
  ): Promise<R> {
    await this.#claim(binding, isRestart);
    try {
      const result = await transfer(this.#state);
      this.#state = undefined;
      return result;
    } finally {
      if (!this.#state && (await this.#isOwn())) await rm(this.path, { force: true });
    }
  }

  async #claim(binding: Binding, isRestart: boolean): Promise<void> {
    const before = isRestart ? undefined : await this.#read();
    this.#state = before?.binding && (before as T);
    for (const name of Object.keys(DIFFERENCES) as (keyof Binding)[]) {
      const value = this.#state?.binding[name];
      if (value === undefined || value === binding[name]) continue;
      throw usageFailure(
        `${this.path} belongs to an unfinished transfer ${DIFFERENCES[name](value)}`,
        `give --restart to start again${binding.input === undefined ? "" : "; a restarted import creates no group twice"}`,
      );
    }
    await this.#write();
  }

  /** Stores the state of the transfer after a step. Call `requireOwn` before the step. */
  async note(state: T): Promise<void> {
    this.#state = state;
    await this.#sync();
    await this.#write();
  }

  /** @throws Failure if another run has claimed the file */
  async requireOwn(): Promise<void> {
    if (await this.#isOwn()) return;
    throw new Failure(`another run of the same command has claimed ${this.path}`, {
      exitCode: EXIT.conflict,
      hint: "let the other run finish",
    });
  }

  async #isOwn(): Promise<boolean> {
    return (await this.#read())?.run === this.#run;
  }

  async #read(): Promise<(Partial<T> & { readonly run?: string }) | undefined> {
    const text = await reading(this.path, () => readFile(this.path, "utf8").catch(ignoreMissing));
    if (text === undefined) return undefined;
    const state = parsedJson(text);
    if (!isObject(state))
      throw usageFailure(`${this.path} is not the state of a transfer`, "delete this file to start again");
    return state as Partial<T> & { readonly run?: string };
  }

  async #write(): Promise<void> {
    const text = `${JSON.stringify({ ...this.#state, run: this.#run })}\n`;
    await writeAtomically(this.path, text, CONTINUE);
  }
}
