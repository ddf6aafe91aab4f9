import { EXIT, Failure, usageFailure } from "../failures.ts";
import {
  type Counts,
  countMore,
  type Done,
  type ImportRecordsOptions,
  importRecords,
  NO_COUNTS,
  rejectsOf,
} from "./importer.ts";
import { type FileIdentity, isSameFile } from "./input-file.ts";
import type { Progress } from "./progress.ts";
import type { GroupSource } from "./records.ts";
import type { RejectsFile } from "./rejects.ts";
import type { StateFile } from "./state-file.ts";

/** The state of an unfinished import, in a file beside the input. */
export interface ImportState {
  /** Only an import with the same binding continues. */
  readonly import: ImportBinding;
  /** The number of processed records. */
  readonly records: number;
  readonly counts: Counts;
  readonly rejects: { readonly path: string; readonly bytes: number };
}

/** The input, the destination and the settings of an import. */
interface ImportBinding {
  readonly url: string;
  readonly environment: string;
  /** The settings that affect the result, as JSON. */
  readonly settings: string;
  readonly input: FileIdentity;
}

interface RunImportOptions extends Omit<ImportRecordsOptions, "skip"> {
  readonly progress: Progress;
  /** The size of the input, in the unit of `GroupRecord.end`. */
  readonly total: () => number | undefined;
  /** Undefined: rejected groups are only counted. */
  readonly rejects: RejectsFile | undefined;
  /** Lets another run continue this one. Undefined: no run can. */
  readonly resumable:
    | { readonly state: StateFile<ImportState>; readonly binding: ImportBinding; readonly isRestart: boolean }
    | undefined;
  /** The import stops after more rejected groups. Undefined: never. */
  readonly maxRejects: number | undefined;
  /** Called for each processed record. */
  readonly onDone?: (done: Done) => Promise<void>;
}

export interface ImportSummary {
  readonly counts: Counts;
  /** The number of records that earlier runs had processed. */
  readonly resumed: number;
}

/** Imports the groups of a source, or continues an interrupted run. @throws Failure, after which a run can continue */
export async function runImport(source: GroupSource, options: RunImportOptions): Promise<ImportSummary> {
  const { resumable, rejects, progress, maxRejects } = options;
  const { state, binding } = resumable ?? {};
  const before = resumable && (await stateToContinue(resumable, rejects));
  let counts = before?.counts ?? NO_COUNTS;
  const skip = before?.records ?? 0;
  let groups = 0;
  const stateAt = (records: number): ImportState => ({
    ...{ import: binding as ImportBinding, records, counts },
    rejects: { path: rejects?.path ?? "", bytes: rejects?.bytes ?? 0 },
  });
  await state?.claim(before ?? stateAt(0));
  try {
    await rejects?.begin(before?.rejects.bytes ?? 0);
    for await (const chunk of importRecords(source, { ...options, skip })) {
      await state?.requireOwn();
      for (const done of chunk.done) await options.onDone?.(done);
      counts = countMore(counts, chunk.done);
      groups += chunk.done.length;
      await rejects?.add(rejectsOf(chunk.done));
      await state?.note(stateAt(chunk.records));
      const total = options.total();
      progress.show({ groups, fraction: total === undefined ? undefined : chunk.end / Math.max(1, total) });
      if (maxRejects !== undefined && counts.rejected > maxRejects) throw tooMany(counts.rejected, maxRejects, rejects);
    }
  } catch (error) {
    if (skip + groups === 0) await state?.remove();
    else await state?.flush();
    throw error;
  } finally {
    progress.clear();
    await rejects?.close();
  }
  await state?.remove();
  return { counts, resumed: skip };
}

function tooMany(rejected: number, most: number, rejects: RejectsFile | undefined): Failure {
  const where = rejects ? `${rejects.path} has the reasons` : "--rejects FILE writes the reasons";
  return new Failure(`${rejected} groups were rejected, more than ${most}`, {
    exitCode: EXIT.incomplete,
    hint: `${where}; run the same command with a higher --max-rejects to continue`,
  });
}

async function stateToContinue(
  { state, binding, isRestart }: NonNullable<RunImportOptions["resumable"]>,
  rejects: RejectsFile | undefined,
): Promise<ImportState | undefined> {
  const before = isRestart ? undefined : await state.read();
  if (!before || before.records === 0) return undefined;
  const path = state.path;
  const refuse = (what: string) =>
    usageFailure(
      `${path} belongs to an unfinished import ${what}`,
      "give --restart to start again: imported groups stay, and are not imported twice",
    );
  const { url, environment, settings, input } = before.import ?? {};
  if (!input || typeof before.records !== "number") throw refuse("that cannot be read");
  if (!isSameFile(input, binding.input)) throw refuse("of another version of the file");
  if (url !== binding.url) throw refuse(`to ${url}`);
  if (environment !== binding.environment) throw refuse(`to the environment ${environment}`);
  if (settings !== binding.settings) throw refuse(`with other options: ${settings}`);
  if (before.rejects.bytes > 0 && before.rejects.path !== rejects?.path)
    throw refuse(`with rejects in ${before.rejects.path}`);
  return before;
}
