import { randomUUID } from "node:crypto";
import { readFile, rm } from "node:fs/promises";
import { isObject } from "../../../operator/src/fields.ts";
import { CONTINUE, EXIT, Failure, usageFailure } from "../failures.ts";
import { ignoreMissing, reading, writeAtomically } from "../files.ts";
import { parsedJson } from "../json.ts";

/** The input, destination and options of a transfer. Only a run with an equal binding can continue the transfer. */
export type Binding = { readonly [difference in keyof typeof DIFFERENCES]?: string | undefined };

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

export interface TransferState<T extends State> {
  /** The state of the unfinished transfer. Undefined if there is none, or if `isRestart` is set. */
  readonly before: T | undefined;
  /** Stores the state of the transfer after a step. Call `requireOwn` before the step. */
  readonly note: (state: T) => Promise<void>;
  /** @throws Failure if another run has claimed the file */
  readonly requireOwn: () => Promise<void>;
}

interface StateOptions {
  readonly binding: Binding;
  readonly isRestart: boolean;
  /** Flushes the data files of the transfer to disk. `note` calls `sync` before it writes the state. */
  readonly sync: () => Promise<void>;
}

/**
 * Runs a transfer (an import or an export), and stores its state in a file. A later run can continue the transfer. Each
 * run claims the file at its start. If another run claims the file afterwards, the earlier run stops. If the transfer
 * finishes, or fails before it stores a state, deletes the file, unless another run has claimed the file.
 *
 * @throws Failure if the unfinished transfer has another binding, or if the file cannot be read or written
 */
export async function withState<T extends State, R>(
  path: string,
  { binding, isRestart, sync }: StateOptions,
  transfer: (state: TransferState<T>) => Promise<R>,
): Promise<R> {
  const run = randomUUID();
  const isOwn = async () => (await readState<T>(path))?.run === run;
  const write = (state?: T) => writeAtomically(path, `${JSON.stringify({ ...state, run })}\n`, CONTINUE);
  const stored = isRestart ? undefined : await readState<T>(path);
  const before = stored?.binding && (stored as T);
  for (const name of Object.keys(DIFFERENCES) as (keyof Binding)[]) {
    const value = before?.binding[name];
    if (value === undefined || value === binding[name]) continue;
    throw usageFailure(
      `${path} belongs to an unfinished transfer ${DIFFERENCES[name](value)}`,
      `give --restart to start again${binding.input === undefined ? "" : "; a restarted import creates no group twice"}`,
    );
  }
  await write(before);
  let isUnfinished = before !== undefined;
  try {
    const result = await transfer({
      before,
      async note(state) {
        isUnfinished = true;
        await sync();
        await write(state);
      },
      async requireOwn() {
        if (await isOwn()) return;
        throw new Failure(`another run of the same command has claimed ${path}`, {
          exitCode: EXIT.conflict,
          hint: "let the other run finish",
        });
      },
    });
    isUnfinished = false;
    return result;
  } finally {
    if (!isUnfinished && (await isOwn())) await rm(path, { force: true });
  }
}

async function readState<T extends State>(path: string): Promise<(Partial<T> & { readonly run?: string }) | undefined> {
  const text = await reading(path, () => readFile(path, "utf8").catch(ignoreMissing));
  if (text === undefined) return undefined;
  const state = parsedJson(text);
  if (!isObject(state)) throw usageFailure(`${path} is not the state of a transfer`, "delete this file to start again");
  return state as Partial<T> & { readonly run?: string };
}
