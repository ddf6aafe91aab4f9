import { type Timestamp, timestampDate } from "@bufbuild/protobuf/wkt";
import { ImportMode } from "../../../../gen/usergroup/admin/v1/admin_service_pb.ts";
import { durationIn } from "../../../operator/src/input.ts";
import { parseTime } from "../../../operator/src/times.ts";
import { environmentOf } from "../commands/options.ts";
import { CONTINUE, EXIT, Failure, usageFailure } from "../failures.ts";
import type { Session } from "../session.ts";
import { type ExploFlags, openExplo } from "./explo-source.ts";
import { type Counts, groupReport, NO_COUNTS, rejectedText, report } from "./import-report.ts";
import { importRecords } from "./importer.ts";
import { openInputFile } from "./input-file.ts";
import type { FileFormat, GroupSource } from "./records.ts";
import { RejectsFile } from "./rejects.ts";
import { SeenIds } from "./seen-ids.ts";
import type { ImportSettings } from "./sender.ts";
import { type Binding, type TransferState, withState } from "./state-file.ts";
import { continuable, groupPages, openTarget, type Target } from "./target.ts";

interface ImportFlags extends ExploFlags {
  readonly env?: string;
  readonly format?: FileFormat;
  readonly upsert?: boolean;
  readonly snapshotTime?: string;
  readonly replaceNewerTokens?: boolean;
  readonly previousTokenTtl?: string;
  readonly dryRun?: boolean;
  readonly verify?: boolean;
  readonly rejects?: string;
  readonly maxRejects?: string;
  readonly ignoreUnknown?: boolean;
  readonly restart?: boolean;
  readonly fromExplo?: boolean;
}

interface ImportState {
  readonly binding: Binding;
  readonly records: number;
  readonly counts: Counts;
  /** The length of the file of rejected groups, in bytes. */
  readonly rejectsBytes: number;
}

/** Runs `ugs import`. @throws Failure if an option is not valid, or if the import fails or rejects groups */
export async function importGroups(session: Session, file: string | undefined, flags: ImportFlags): Promise<void> {
  const { shell, out } = session;
  const maxRejects = flags.maxRejects === undefined ? Number.POSITIVE_INFINITY : maxRejectsOf(flags.maxRejects);
  requireOneInput(file, flags);
  const isChanging = !flags.dryRun && !flags.verify;
  const target = await openTarget(session, environmentOf(session, flags), isChanging ? "imported" : "compared");
  const { connection, patience, progress } = target;
  const source =
    file === undefined
      ? await openExplo(flags, { env: shell.env, ...patience })
      : await openInputFile(file, {
          stdin: shell.stdin,
          format: flags.format,
          ignoreUnknown: flags.ignoreUnknown === true,
        });
  try {
    const settings = settingsOf(flags, source, target);
    const seen = new SeenIds();
    const rejects = rejectsFile(file, flags, source, isChanging);
    const isStored = source.identity !== undefined && isChanging;
    const binding: Binding = {
      input: source.identity,
      url: connection.url.href,
      environment: target.name,
      rejects: rejects?.path,
      options: settingsText(flags, settings),
    };
    const shown = groupReport(session, flags, rejects !== undefined);

    const transfer = async (state?: TransferState<ImportState>) => {
      const before = state?.before;
      const skip = before?.records ?? 0;
      const counts: Counts = { ...(before?.counts ?? NO_COUNTS) };
      const options = { target, settings, seen, skip };
      try {
        await rejects?.begin(before?.rejectsBytes ?? 0);
        for await (const { done, records } of importRecords(source, options)) {
          await state?.requireOwn();
          for (const each of done) {
            counts[each.result.fate] += 1;
            await shown.add(each);
          }
          await rejects?.add(done);
          const rejectsBytes = rejects?.bytes ?? 0;
          // If no group has been rejected yet, a later run may continue the import with another `--rejects` file.
          const bound = rejectsBytes === 0 ? { ...binding, rejects: undefined } : binding;
          await state?.note({ binding: bound, records, counts, rejectsBytes });
          progress.show({ groups: records - skip, fraction: source.fraction() });
          if (counts.rejected > maxRejects) throw tooMany(counts.rejected, maxRejects, rejects);
        }
      } finally {
        await rejects?.close();
      }
      return { counts, resumed: skip };
    };

    const stored = { binding, isRestart: flags.restart === true, sync: async () => rejects?.sync() };
    const run = () => (isStored ? withState(`${file}.import-state`, stored, transfer) : transfer());
    const continuation = isStored
      ? CONTINUE
      : "run the same command again; the import starts again, and creates no group twice";
    const summary = await continuable(session, target, continuation, run);
    for (const warning of source.warnings?.() ?? []) out.note(`warning: ${warning}`);
    if (flags.verify) {
      const countExtra = () => reportExtra(target, source, { seen, shown });
      summary.counts.onlyHere = await continuable(session, target, continuation, countExtra);
    }
    const changed = (await source.hasChanged?.()) ? file : undefined;
    await report(session, { ...summary, flags, target, rejects, changed });
  } finally {
    await source.close?.();
  }
}

/** Reports the groups that exist only in the service. @returns the number of these groups */
async function reportExtra(
  target: Target,
  { header }: GroupSource,
  { seen, shown }: { readonly seen: SeenIds; readonly shown: ReturnType<typeof groupReport> },
): Promise<number> {
  let extra = 0;
  for await (const page of groupPages(target, header.prefix ?? "")) {
    for (const { providedId } of page) {
      if (seen.has(providedId)) continue;
      extra += 1;
      await shown.onlyHere(providedId);
    }
  }
  return extra;
}

function tooMany(rejected: number, most: number, rejects: RejectsFile | undefined): Failure {
  const where = rejects
    ? `${rejects.path} has the rejected groups and the reasons`
    : "--rejects FILE writes the reasons";
  return new Failure(`${rejectedText(rejected)}, more than ${most}`, {
    exitCode: EXIT.incomplete,
    hint: `${where}; to continue, run the same command with a higher --max-rejects`,
  });
}

function requireOneInput(file: string | undefined, flags: ImportFlags): void {
  if (flags.fromExplo && file !== undefined) throw usageFailure("give either a file or --from-explo");
  if (!flags.fromExplo && file === undefined)
    throw usageFailure(
      "no input is given",
      "give a file with JSON Lines or CSV, - for standard input, or --from-explo",
    );
}

function settingsOf(flags: ImportFlags, { header }: GroupSource, { environment }: Target): ImportSettings {
  const time = flags.snapshotTime ?? header.snapshotTime;
  return {
    environment,
    mode: flags.upsert || flags.verify ? ImportMode.UPSERT : ImportMode.CREATE_ONLY,
    snapshotTime: time === undefined ? undefined : snapshotTimeOf(time, flags.snapshotTime === undefined),
    replaceNewerTokens: flags.replaceNewerTokens === true && !flags.verify,
    previousTokenTtl:
      flags.previousTokenTtl === undefined ? undefined : durationIn("--previous-token-ttl", flags.previousTokenTtl),
    validateOnly: flags.dryRun === true || flags.verify === true,
  };
}

/**
 * Formats the settings that must not change during an import. A later run must have the same settings to continue the
 * import.
 */
function settingsText(flags: ImportFlags, { snapshotTime }: ImportSettings): string {
  const { upsert = false, replaceNewerTokens = false, previousTokenTtl = "", ignoreUnknown = false, format } = flags;
  const time = snapshotTime && timestampDate(snapshotTime as Timestamp).toISOString();
  return JSON.stringify({ snapshotTime: time, upsert, replaceNewerTokens, previousTokenTtl, ignoreUnknown, format });
}

function snapshotTimeOf(text: string, isOfFile: boolean): Timestamp {
  const time = parseTime(text);
  if (time) return time;
  throw usageFailure(
    isOfFile ? "the snapshot_time in the first line of the file is not a time" : "--snapshot-time is not a time",
    "write the time with its offset from UTC, such as 2026-01-31T08:00:00Z",
  );
}

function maxRejectsOf(text: string): number {
  if (!/^\d{1,15}$/.test(text)) throw usageFailure("--max-rejects must be a whole number");
  return Number(text);
}

/** Returns the file for rejected groups. Undefined if the run changes nothing and `--rejects` is not set. */
function rejectsFile(
  file: string | undefined,
  { rejects }: ImportFlags,
  { firstLines, format }: GroupSource,
  isChanging: boolean,
): RejectsFile | undefined {
  const named = file === undefined ? "explo" : file === "-" ? "ugs-import" : file.replace(/\.(csv|jsonl|ndjson)$/i, "");
  const path = rejects ?? (isChanging ? `${named}.rejects.${format}` : undefined);
  return path === undefined ? undefined : new RejectsFile(path, firstLines);
}
