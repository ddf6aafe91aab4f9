import { type Timestamp, timestampDate } from "@bufbuild/protobuf/wkt";
import { ImportMode } from "../../../../gen/usergroup/admin/v1/admin_service_pb.ts";
import { parseTime } from "../../../operator/src/times.ts";
import { environmentOf } from "../commands/options.ts";
import { CONTINUE, EXIT, Failure, usageFailure } from "../failures.ts";
import { jsonLine } from "../output/printable.ts";
import type { Session } from "../session.ts";
import { ttlOf } from "../times.ts";
import { type ExploFlags, openExplo } from "./explo-source.ts";
import { type Done, importRecords } from "./importer.ts";
import { openInputFile } from "./input-file.ts";
import { count } from "./progress.ts";
import type { FileFormat, GroupSource } from "./records.ts";
import { RejectsFile } from "./rejects.ts";
import { SeenIds } from "./seen-ids.ts";
import { type Fate, GroupSender, type ImportSettings } from "./sender.ts";
import { type Binding, StateFile } from "./state-file.ts";
import { continuable, groupPages, openTarget, type Target } from "./target.ts";

/** The options of `ugs import`. */
export interface ImportFlags extends ExploFlags {
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

/** The state of an unfinished import, in a file beside the input. */
interface ImportState {
  readonly binding: Binding;
  /** The number of processed records. */
  readonly records: number;
  readonly counts: Counts;
  /** The length of the file of rejects. */
  readonly rejectsBytes: number;
}

/** The number of groups by outcome. */
type Counts = { readonly [fate in Fate]: number };

const NO_COUNTS: Counts = { created: 0, updated: 0, unchanged: 0, tokenNewer: 0, rejected: 0 };

/** The most reasons that are shown without a file of rejects. */
const REASONS_SHOWN = 20;

/** Runs `ugs import`. @throws Failure */
export async function importGroups(session: Session, file: string | undefined, flags: ImportFlags): Promise<void> {
  const { shell, out } = session;
  const maxRejects = flags.maxRejects === undefined ? Number.POSITIVE_INFINITY : maxRejectsOf(flags.maxRejects);
  requireOneInput(file, flags);
  const isChanging = !flags.dryRun && !flags.verify;
  const target = await openTarget(session, environmentOf(session, flags), isChanging ? "imported" : "compared");
  const { admin, connection, patience, progress } = target;
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
    const state =
      source.identity !== undefined && isChanging
        ? new StateFile<ImportState>(`${file}.import-state`, async () => rejects?.sync())
        : undefined;
    const binding: Binding = {
      ...{ input: source.identity, url: connection.url.href, environment: target.name, rejects: rejects?.path },
      options: settingsText(flags, settings),
    };
    const shown = new GroupReport(session, flags, rejects !== undefined);

    /** Imports the groups, or continues an interrupted run. */
    const run = async () => {
      const before = await state?.claim(binding, flags.restart === true);
      const skip = before?.records ?? 0;
      const counts = { ...(before?.counts ?? NO_COUNTS) };
      const options = {
        sender: new GroupSender(admin, settings, patience),
        ...{ seen, skip, signal: shell.signal, hasSnapshotTime: settings.snapshotTime !== undefined },
      };
      try {
        await rejects?.begin(before?.rejectsBytes ?? 0);
        for await (const { done, records } of importRecords(source, options)) {
          await state?.requireOwn();
          for (const each of done) {
            counts[each.result.fate] += 1;
            await shown.add(each);
          }
          await rejects?.add(rejectsOf(done));
          const rejectsBytes = rejects?.bytes ?? 0;
          // Without rejects, the run that continues may name another file.
          const bound = rejectsBytes === 0 ? { ...binding, rejects: undefined } : binding;
          await state?.note({ binding: bound, records, counts, rejectsBytes });
          progress.show({ groups: records - skip, fraction: source.fraction() });
          if (counts.rejected > maxRejects) throw tooMany(counts.rejected, maxRejects, rejects);
        }
      } catch (error) {
        await state?.stop();
        throw error;
      } finally {
        await rejects?.close();
      }
      await state?.remove();
      return { counts, resumed: skip };
    };

    const continuation = state ? CONTINUE : "run the same command again: it skips what is done";
    const summary = await continuable(session, target, continuation, run);
    for (const warning of source.warnings?.() ?? []) out.note(`warning: ${warning}`);
    const extra = flags.verify ? await reportExtra(target, source, { seen, shown }) : undefined;
    const changed = (await source.hasChanged?.()) ? file : undefined;
    await report(session, { summary, flags, target, rejects, extra, changed });
  } finally {
    await source.close?.();
  }
}

/** Reports groups that only the service has. @returns their number */
async function reportExtra(
  target: Target,
  { header }: GroupSource,
  { seen, shown }: { readonly seen: SeenIds; readonly shown: GroupReport },
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

function rejectsOf(done: readonly Done[]) {
  return done
    .filter(({ result }) => result.fate === "rejected")
    .map(({ record, result }) => ({ record, reason: result.reason ?? "" }));
}

function tooMany(rejected: number, most: number, rejects: RejectsFile | undefined): Failure {
  const where = rejects ? `${rejects.path} has the reasons` : "--rejects FILE writes the reasons";
  return new Failure(`${rejected} groups were rejected, more than ${most}`, {
    exitCode: EXIT.incomplete,
    hint: `${where}; run the same command with a higher --max-rejects to continue`,
  });
}

function requireOneInput(file: string | undefined, flags: ImportFlags): void {
  if (flags.fromExplo && file !== undefined) throw usageFailure("give either a file or --from-explo");
  if (!flags.fromExplo && file === undefined)
    throw usageFailure(
      "no input is given",
      "give a file with JSON Lines or CSV, - for standard input, or --from-explo",
    );
  if (flags.dryRun && flags.verify) throw usageFailure("give either --dry-run or --verify");
}

function settingsOf(flags: ImportFlags, { header }: GroupSource, { environment }: Target): ImportSettings {
  const time = flags.snapshotTime ?? header.snapshotTime;
  const ttl = ttlOf("--previous-token-ttl", flags.previousTokenTtl);
  return {
    environment,
    mode: flags.upsert || flags.verify ? ImportMode.UPSERT : ImportMode.CREATE_ONLY,
    ...(time !== undefined && { snapshotTime: snapshotTimeOf(time, flags.snapshotTime === undefined) }),
    replaceNewerTokens: flags.replaceNewerTokens === true && !flags.verify,
    ...(ttl && { previousTokenTtl: ttl }),
    validateOnly: flags.dryRun === true || flags.verify === true,
  };
}

/** The settings that must be the same to continue the import, as text. */
function settingsText(flags: ImportFlags, { snapshotTime }: ImportSettings): string {
  const { upsert = false, replaceNewerTokens = false, previousTokenTtl = "", ignoreUnknown = false, format } = flags;
  const time = snapshotTime && timestampDate(snapshotTime as Timestamp).toISOString();
  return JSON.stringify({ snapshotTime: time, upsert, replaceNewerTokens, previousTokenTtl, ignoreUnknown, format });
}

/** @throws Failure if it is no time */
function snapshotTimeOf(text: string, isOfFile: boolean): Timestamp {
  const time = parseTime(text);
  if (time) return time;
  throw usageFailure(
    isOfFile ? "the snapshot_time in the first line of the file is no time" : "--snapshot-time is no time",
    "write it with its offset from UTC, such as 2026-01-31T08:00:00Z",
  );
}

function maxRejectsOf(text: string): number {
  if (!/^\d{1,15}$/.test(text)) throw usageFailure("--max-rejects must be a whole number");
  return Number(text);
}

/** The file of rejects. A run that changes nothing writes it only if the user names it. */
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

/** Reports single groups. */
class GroupReport {
  readonly #session: Session;
  readonly #flags: ImportFlags;
  readonly #hasFile: boolean;
  #count = 0;

  constructor(session: Session, flags: ImportFlags, hasFile: boolean) {
    this.#session = session;
    this.#flags = flags;
    this.#hasFile = hasFile;
  }

  async add({ record, providedId, result }: Done): Promise<void> {
    const { out } = this.#session;
    const { dryRun, verify } = this.#flags;
    const { fate, changedFields, reason } = result;
    const isReported = verify ? fate !== "unchanged" : dryRun;
    if (out.isJson && isReported)
      await out.line(jsonLine({ line: record.line, providedId, result: fate, changedFields, reason }));
    const isReason = fate === "rejected" && !this.#hasFile;
    if (out.isJson || !(isReason || (verify && isReported))) return;
    const what = reason ?? (fate === "created" ? "is missing here" : `differs: ${differing(result)}`);
    const where = providedId === undefined ? `line ${record.line}` : JSON.stringify(providedId);
    this.#note(`${where}: ${what}`);
  }

  /** Reports a group that only the service has. */
  async onlyHere(providedId: string): Promise<void> {
    const { out } = this.#session;
    if (out.isJson) await out.line(jsonLine({ providedId, result: "onlyHere" }));
    else this.#note(`${JSON.stringify(providedId)}: is only here`);
  }

  #note(text: string): void {
    if (this.#count === REASONS_SHOWN) return;
    const { out } = this.#session;
    this.#count += 1;
    out.note(text);
    if (this.#count === REASONS_SHOWN) out.note("further groups are not shown; --json shows all");
  }
}

/** The fields that differ, including a token that is newer in the service. */
function differing({ fate, changedFields }: Done["result"]): string {
  return [...changedFields, ...(fate === "tokenNewer" ? ["token (newer here)"] : [])].join(", ");
}

const WORDS: { readonly [fate in Fate]: readonly [done: string, would: string, verified: string] } = {
  created: ["created", "would be created", "missing here"],
  updated: ["updated", "would be updated", "different"],
  unchanged: ["unchanged", "would stay unchanged", "equal"],
  tokenNewer: ["kept a newer token", "would keep a newer token", "with a newer token here"],
  rejected: ["rejected", "would be rejected", "that cannot be imported"],
};

/** Reports the result. @throws Failure if groups were rejected, or the sides differ */
async function report(
  { out }: Session,
  given: {
    /** `resumed`: the number of records that earlier runs had processed. */
    readonly summary: { readonly counts: Counts; readonly resumed: number };
    readonly flags: ImportFlags;
    readonly target: Target;
    readonly rejects: RejectsFile | undefined;
    /** The number of groups that only the service has. Undefined: not counted. */
    readonly extra: number | undefined;
    /** The path of the file, if it was changed during the import. */
    readonly changed: string | undefined;
  },
): Promise<void> {
  const { summary, flags, target, rejects, extra, changed } = given;
  const { counts, resumed } = summary;
  const column = flags.verify ? 2 : flags.dryRun ? 1 : 0;
  const hasRejects = counts.rejected > 0 && rejects !== undefined;
  if (out.isJson) {
    const facts = { ...counts, ...(extra !== undefined && { onlyHere: extra }), resumed, environment: target.name };
    await out.line(jsonLine({ summary: { ...facts, ...(hasRejects && { rejects: rejects.path }) } }));
  } else {
    const rows = (Object.keys(WORDS) as Fate[]).map(
      (fate) => [count(counts[fate]), WORDS[fate][column] ?? ""] as const,
    );
    if (extra !== undefined) rows.push([count(extra), "only here"]);
    const width = Math.max(...rows.map(([number]) => number.length));
    const title = ["imported into", "dry run against", "compared with"][column];
    await out.line(`${title} ${target.name}${resumed > 0 ? `, ${count(resumed)} of them by an earlier run` : ""}`);
    for (const [number, words] of rows) await out.line(`${number.padStart(width)}  ${words}`);
    if (hasRejects) await out.line(`${rejects.path} has the reasons: correct it and import it`);
    if (Object.values(counts).every((number) => number === 0)) out.note("warning: the input has no groups");
  }
  if (changed !== undefined)
    throw new Failure(`${changed} changed during the import`, {
      exitCode: EXIT.incomplete,
      hint: "run the same command again when nothing writes to it: it skips what is imported",
    });
  if (flags.verify) {
    const differ = counts.created + counts.updated + counts.tokenNewer + counts.rejected + (extra ?? 0);
    if (differ > 0) throw new Failure(`the two sides differ in ${count(differ)} groups`, { exitCode: EXIT.incomplete });
  } else if (counts.rejected > 0) {
    const what = flags.dryRun ? "would be rejected" : "were rejected";
    throw new Failure(`${count(counts.rejected)} groups ${what}`, { exitCode: EXIT.incomplete });
  }
}
