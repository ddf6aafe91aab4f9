import { type Timestamp, timestampDate } from "@bufbuild/protobuf/wkt";
import type { ExportUserGroupsResponse } from "../../../../gen/usergroup/admin/v1/admin_service_pb.ts";
import { environmentOf } from "../commands/options.ts";
import { CONTINUE, usageFailure } from "../failures.ts";
import { jsonLine } from "../output/printable.ts";
import type { Session } from "../session.ts";
import { csvFirstLines, csvOf } from "./csv.ts";
import { rowOf } from "./group-row.ts";
import { headerText } from "./header.ts";
import { formatOf } from "./input-file.ts";
import { OutputFile } from "./output-file.ts";
import { patiently } from "./patience.ts";
import { count, Progress } from "./progress.ts";
import type { FileFormat } from "./records.ts";
import { StateFile } from "./state-file.ts";
import { openTarget, type Target, transferFailure } from "./target.ts";

/** The options of `ugs export`. */
export interface ExportFlags {
  readonly env?: string;
  readonly format?: FileFormat;
  readonly prefix?: string;
  readonly includeTokens?: boolean;
  readonly force?: boolean;
  readonly restart?: boolean;
}

/** The state of an unfinished export. */
interface ExportState {
  /** The environment, service and options, as JSON. Only an export with the same ones continues. */
  readonly export: string;
  readonly pageToken: string;
  readonly groups: number;
  readonly bytes: number;
  /** The snapshot time of the first page. Empty: not read yet. */
  readonly snapshotTime: string;
}

/** The destination of an export. */
interface Sink {
  begin(bytes: number): Promise<void>;
  write(text: string): Promise<void>;
  sync(): Promise<void>;
  finish(): Promise<void>;
  close(): Promise<void>;
  readonly bytes: number;
}

type Page = Promise<ExportUserGroupsResponse>;

const PAGE_SIZE = 1000;
/** The timeout of a page, in milliseconds. */
const TIMEOUT_MS = 60_000;

/** Runs `ugs export`. @param path `-` or undefined: standard output @throws Failure */
export async function exportGroups(session: Session, path: string | undefined, flags: ExportFlags): Promise<void> {
  const { shell, out } = session;
  const file = path === "-" ? undefined : path;
  if (file === undefined && flags.includeTokens && out.isTerminal)
    throw usageFailure("a terminal must not show the tokens", "give a file: only its owner can read it");
  const format = flags.format ?? (file === undefined ? undefined : formatOf(file)) ?? "jsonl";
  const target = await openTarget(session, environmentOf(session, flags));
  const progress = new Progress(shell.stderr, "exported");
  const sink = file === undefined ? standardOutput(session) : new OutputFile(file, flags.force === true);
  const state = file === undefined ? undefined : new StateFile<ExportState>(`${file}.export-state`, () => sink.sync());
  try {
    const groups = await writeAll({ session, flags, format, target, progress, state, sink }).finally(() => {
      progress.clear();
      return sink.close();
    });
    if (file !== undefined) await report(session, { file, groups, environment: target.name });
  } catch (error) {
    if (state && shell.signal.aborted) out.note(CONTINUE);
    throw transferFailure(error, target.connection, state ? CONTINUE : "run the same command again");
  }
}

async function report({ out }: Session, facts: { file: string; groups: number; environment: string }): Promise<void> {
  if (out.isJson) return out.line(jsonLine({ summary: facts }));
  await out.line(`exported ${count(facts.groups)} groups of ${facts.environment} to ${facts.file}`);
}

/** Writes all pages. It requests the next page while it writes one. @returns the number of groups */
async function writeAll(given: {
  readonly session: Session;
  readonly flags: ExportFlags;
  readonly format: FileFormat;
  readonly target: Target;
  readonly progress: Progress;
  readonly state: StateFile<ExportState> | undefined;
  readonly sink: Sink;
}): Promise<number> {
  const { session, flags, format, target, progress, state, sink } = given;
  const { prefix = "", includeTokens = false } = flags;
  const { signal } = session.shell;
  const binding = JSON.stringify({
    ...{ url: target.connection.url.href, environment: target.name },
    ...{ format, prefix, includeTokens },
  });
  const read = (pageToken: string): Page => {
    const page = patiently({ signal, onPause: (ms, reason) => progress.pause(ms, reason) }, () =>
      target.admin.exportUserGroups(
        {
          ...(target.environment && { environment: target.environment }),
          ...{ pageSize: PAGE_SIZE, pageToken, providedIdPrefix: prefix, includeTokens },
        },
        { timeoutMs: TIMEOUT_MS },
      ),
    );
    // The caller awaits the page later, and handles its failure then.
    page.catch(() => {});
    return page;
  };
  const before = state && (await stateToContinue(state, binding, flags.restart === true));
  const begun = before ?? { export: binding, pageToken: "", groups: 0, bytes: 0, snapshotTime: "" };
  await state?.claim(begun);
  let { groups, snapshotTime } = begun;
  try {
    await sink.begin(begun.bytes);
    let next: Page | undefined = read(begun.pageToken);
    while (next) {
      const page: ExportUserGroupsResponse = await next;
      const { nextPageToken } = page;
      next = nextPageToken === "" ? undefined : read(nextPageToken);
      await state?.requireOwn();
      if (snapshotTime === "") {
        snapshotTime = timestampDate(page.snapshotTime as Timestamp).toISOString();
        const header = headerText({ snapshotTime, environment: target.name, prefix });
        await sink.write(format === "csv" ? csvFirstLines(header, includeTokens) : `${header}\n`);
      }
      await sink.write(textOf(page, format, includeTokens));
      groups += page.userGroups.length;
      if (nextPageToken !== "")
        await state?.note({ export: binding, pageToken: nextPageToken, groups, bytes: sink.bytes, snapshotTime });
      const fraction = prefix === "" ? groups / Math.max(1, target.count) : undefined;
      progress.show({ groups: groups - begun.groups, fraction });
    }
    await sink.finish();
  } catch (error) {
    if (groups === 0) await state?.remove();
    else await state?.flush();
    throw error;
  }
  await state?.remove();
  return groups;
}

function textOf({ userGroups }: ExportUserGroupsResponse, format: FileFormat, hasTokens: boolean): string {
  const rows = userGroups.map((group) => rowOf(group, hasTokens));
  if (format === "csv") return rows.length === 0 ? "" : csvOf(rows);
  return rows.map((row) => `${JSON.stringify(row)}\n`).join("");
}

async function stateToContinue(
  state: StateFile<ExportState>,
  binding: string,
  isRestart: boolean,
): Promise<ExportState | undefined> {
  const before = isRestart ? undefined : await state.read();
  if (!before || before.groups === 0) return undefined;
  if (before.export !== binding)
    throw usageFailure(
      `${state.path} belongs to an unfinished export with other options: ${before.export}`,
      "give --restart to start again",
    );
  return before;
}

/** Standard output. An export to it cannot continue. */
function standardOutput({ out }: Session): Sink {
  return {
    begin: async () => {},
    write: async (text) => {
      if (text !== "") await out.text(text);
    },
    sync: async () => {},
    finish: async () => {},
    close: async () => {},
    bytes: 0,
  };
}
