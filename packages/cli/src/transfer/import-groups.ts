import { type Timestamp, timestampDate } from "@bufbuild/protobuf/wkt";
import { ImportMode } from "../../../../gen/usergroup/admin/v1/admin_service_pb.ts";
import { parseTime } from "../../../operator/src/times.ts";
import { environmentOf } from "../commands/options.ts";
import { CONTINUE, EXIT, Failure, usageFailure } from "../failures.ts";
import { jsonLine } from "../output/printable.ts";
import type { Session } from "../session.ts";
import { ttlOf } from "../times.ts";
import { type ExploFlags, openExplo } from "./explo-source.ts";
import type { Done } from "./importer.ts";
import { type InputFile, openInputFile } from "./input-file.ts";
import { count, Progress } from "./progress.ts";
import type { FileFormat, GroupSource } from "./records.ts";
import { RejectsFile } from "./rejects.ts";
import { type ImportState, type ImportSummary, runImport } from "./run-import.ts";
import { SeenIds } from "./seen-ids.ts";
import { type Fate, GroupSender, type ImportSettings } from "./sender.ts";
import { StateFile } from "./state-file.ts";
import { groupPages, openTarget, type Target, transferFailure } from "./target.ts";

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

/** The source of the groups. */
interface Input {
  readonly source: GroupSource;
  readonly format: FileFormat;
  readonly identity: InputFile["identity"];
  /** The size of the input, in the unit of `GroupRecord.end`. Undefined: unknown. */
  readonly total: () => number | undefined;
  /** The warnings after the last record. */
  readonly warnings: () => readonly string[];
  hasChanged(): Promise<boolean>;
  close(): Promise<void>;
}

/** The most reasons that are shown without a file of rejects. */
const REASONS_SHOWN = 20;

/** Runs `ugs import`. @throws Failure */
export async function importGroups(session: Session, file: string | undefined, flags: ImportFlags): Promise<void> {
  const { shell, out } = session;
  const maxRejects = flags.maxRejects === undefined ? undefined : maxRejectsOf(flags.maxRejects);
  requireOneInput(file, flags);
  const isChanging = !flags.dryRun && !flags.verify;
  const target = await openTarget(session, environmentOf(session, flags));
  const progress = new Progress(shell.stderr, isChanging ? "imported" : "compared");
  const onPause = (pauseMs: number, reason: string) => progress.pause(pauseMs, reason);
  const input = await openInput(session, file, { flags, onPause });
  try {
    const settings = settingsOf(flags, input.source, target);
    const seen = new SeenIds();
    const sender = new GroupSender(target.admin, settings, { signal: shell.signal, onPause });
    const rejects = rejectsFile(file, flags, input, isChanging);
    const state =
      input.identity && isChanging
        ? new StateFile<ImportState>(`${file}.import-state`, async () => rejects?.sync())
        : undefined;
    const shown = new GroupReport(session, flags, rejects !== undefined);
    const summary = await runImport(input.source, {
      ...{ sender, seen, progress, rejects, maxRejects, signal: shell.signal, total: input.total },
      hasSnapshotTime: settings.snapshotTime !== undefined,
      onDone: (done) => shown.add(done),
      resumable: state && {
        state,
        isRestart: flags.restart === true,
        binding: {
          url: target.connection.url.href,
          environment: target.name,
          settings: settingsText(flags, settings),
          input: input.identity as NonNullable<InputFile["identity"]>,
        },
      },
    }).catch((error: unknown) => {
      if (state && shell.signal.aborted) out.note(CONTINUE);
      throw transferFailure(
        error,
        target.connection,
        state ? CONTINUE : "run the same command again: it skips what is done",
      );
    });
    progress.clear();
    for (const warning of input.warnings()) out.note(`warning: ${warning}`);
    const { prefix = "" } = input.source.header;
    let extra = flags.verify ? 0 : undefined;
    for await (const page of flags.verify ? groupPages(target, { prefix, signal: shell.signal, onPause }) : []) {
      const missed = page.filter(({ providedId }) => !seen.has(providedId));
      extra = (extra ?? 0) + missed.length;
      for (const { providedId } of missed) await shown.onlyHere(providedId);
    }
    const changed = (await input.hasChanged()) ? file : undefined;
    await report(session, { summary, flags, target, rejects, extra, changed });
  } finally {
    await input.close();
  }
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

async function openInput(
  { shell }: Session,
  file: string | undefined,
  { flags, onPause }: { readonly flags: ImportFlags; readonly onPause: (pauseMs: number, reason: string) => void },
): Promise<Input> {
  if (file === undefined) {
    const explo = await openExplo(flags, { env: shell.env, signal: shell.signal, onPause });
    return { ...explo, format: "jsonl", identity: undefined, hasChanged: async () => false, close: async () => {} };
  }
  const { stdin } = shell;
  const opened = await openInputFile(file, {
    stdin,
    format: flags.format,
    ignoreUnknown: flags.ignoreUnknown === true,
  });
  return {
    ...opened,
    total: () => opened.identity?.bytes,
    warnings: () => [],
  };
}

function settingsOf(flags: ImportFlags, { header }: GroupSource, { environment }: Target): ImportSettings {
  const time = flags.snapshotTime ?? header.snapshotTime;
  const ttl = ttlOf("--previous-token-ttl", flags.previousTokenTtl);
  return {
    ...(environment && { environment }),
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
  { source, format }: Input,
  isChanging: boolean,
): RejectsFile | undefined {
  const named = file === undefined ? "explo" : file === "-" ? "ugs-import" : file.replace(/\.(csv|jsonl|ndjson)$/i, "");
  const path = rejects ?? (isChanging ? `${named}.rejects.${format}` : undefined);
  return path === undefined ? undefined : new RejectsFile(path, source.firstLines);
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
    readonly summary: ImportSummary;
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
