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

/** The state of an import that is under way, in the file beside the input. */
export interface ImportState {
  /** What is imported, where and how. An import that differs in it does not continue this one. */
  readonly import: ImportBinding;
  /** How many records of the input were dealt with. */
  readonly records: number;
  readonly counts: Counts;
  readonly rejects: { readonly path: string; readonly bytes: number };
}

/** What is imported, where and how. */
interface ImportBinding {
  readonly url: string;
  readonly environment: string;
  /** The settings that decide on the fate of groups, as JSON. */
  readonly settings: string;
  readonly input: FileIdentity;
}

/** How an import runs. */
interface RunImportOptions extends Omit<ImportRecordsOptions, "skip"> {
  readonly progress: Progress;
  /** The size of the input, in the unit of `GroupRecord.end`. */
  readonly total: () => number | undefined;
  /** Undefined: rejected groups are only counted. */
  readonly rejects: RejectsFile | undefined;
  /** What lets another run continue this one; undefined: no run can. */
  readonly resumable:
    | { readonly state: StateFile<ImportState>; readonly binding: ImportBinding; readonly isAnew: boolean }
    | undefined;
  /** How many groups may be rejected before the import stops; undefined: any number. */
  readonly maxRejects: number | undefined;
  /** Called for each record that was dealt with. */
  readonly onDone?: (done: Done) => Promise<void>;
}

/** The result of an import. */
export interface ImportSummary {
  readonly counts: Counts;
  /** How many records earlier runs had dealt with. */
  readonly resumed: number;
}

/**
 * Imports the groups of a source, continuing an earlier run that was cut off. @throws Failure, after which it can be
 * repeated
 */
export async function runImport(source: GroupSource, options: RunImportOptions): Promise<ImportSummary> {
  const { resumable, rejects, progress, maxRejects } = options;
  const { state, binding } = resumable ?? {};
  const before = resumable && (await stateToGoOnWith(resumable, rejects));
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
      progress.tell({ groups, fraction: total === undefined ? undefined : chunk.end / Math.max(1, total) });
      if (maxRejects !== undefined && counts.rejected > maxRejects) throw tooMany(counts.rejected, maxRejects, rejects);
    }
  } catch (error) {
    if (skip + groups === 0) await state?.remove();
    else await state?.flush();
    throw error;
  } finally {
    progress.end();
    await rejects?.close();
  }
  await state?.remove();
  return { counts, resumed: skip };
}

function tooMany(rejected: number, most: number, rejects: RejectsFile | undefined): Failure {
  const where = rejects ? `${rejects.path} says why` : "--rejects FILE says why";
  return new Failure(`${rejected} groups were rejected, more than ${most}`, {
    exitCode: EXIT.incomplete,
    hint: `${where}; run the same command with a higher --max-rejects to go on`,
  });
}

async function stateToGoOnWith(
  { state, binding, isAnew }: NonNullable<RunImportOptions["resumable"]>,
  rejects: RejectsFile | undefined,
): Promise<ImportState | undefined> {
  const before = isAnew ? undefined : await state.read();
  if (!before || before.records === 0) return undefined;
  const path = state.path;
  const refuse = (what: string) =>
    usageFailure(
      `${path} is of an import that was cut off, ${what}`,
      "give --restart to start over: what was imported already stays, and is not done twice",
    );
  const { url, environment, settings, input } = before.import ?? {};
  if (!input || typeof before.records !== "number") throw refuse("but cannot be read");
  if (!isSameFile(input, binding.input)) throw refuse("and the file has changed since");
  if (url !== binding.url) throw refuse(`to ${url}`);
  if (environment !== binding.environment) throw refuse(`to the environment ${environment}`);
  if (settings !== binding.settings) throw refuse(`with other options: ${settings}`);
  if (before.rejects.bytes > 0 && before.rejects.path !== rejects?.path)
    throw refuse(`whose rejects are in ${before.rejects.path}`);
  return before;
}
