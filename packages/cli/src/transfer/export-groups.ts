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
import { count } from "./progress.ts";
import type { FileFormat } from "./records.ts";
import { type Binding, StateFile } from "./state-file.ts";
import { continuable, openTarget, type Target } from "./target.ts";

export interface ExportFlags {
  readonly env?: string;
  readonly format?: FileFormat;
  readonly prefix?: string;
  readonly includeTokens?: boolean;
  readonly force?: boolean;
  readonly restart?: boolean;
}

interface ExportState {
  readonly binding: Binding;
  readonly pageToken: string;
  readonly groups: number;
  readonly bytes: number;
  readonly snapshotTime: string;
}

type Page = Promise<ExportUserGroupsResponse>;

const PAGE_SIZE = 1000;
const TIMEOUT_MS = 60_000;

/** Runs `ugs export`. @param path if `-` or undefined, writes to standard output @throws Failure */
export async function exportGroups(session: Session, path: string | undefined, flags: ExportFlags): Promise<void> {
  const { out } = session;
  const file = path === "-" ? undefined : path;
  if (file === undefined && flags.includeTokens && out.isTerminal)
    throw usageFailure("a terminal must not show the tokens", "give a file: only the owner can read this file");
  const format = flags.format ?? (file === undefined ? undefined : formatOf(file)) ?? "jsonl";
  const target = await openTarget(session, environmentOf(session, flags), "exported");
  const output = file === undefined ? undefined : new OutputFile(file, flags.force === true);
  const state = output && new StateFile<ExportState>(`${file}.export-state`, () => output.sync());
  const { prefix = "", includeTokens = false, restart: isRestart = false } = flags;
  const options = { format, prefix, includeTokens };
  const binding: Binding = {
    url: target.connection.url.href,
    environment: target.name,
    options: JSON.stringify(options),
  };
  const transfer = (before?: ExportState) => writeAll({ session, options, binding, target, state, output }, before);
  const run = () => (state ? state.run({ binding, isRestart }, transfer) : transfer()).finally(() => output?.close());
  const groups = await continuable(session, target, state ? CONTINUE : "run the same command again", run);
  if (file === undefined) return;
  if (out.isJson) return out.line(jsonLine({ summary: { file, groups, environment: target.name } }));
  await out.line(`exported ${count(groups)} groups of ${target.name} to ${file}`);
}

interface Export {
  readonly session: Session;
  readonly options: { readonly format: FileFormat; readonly prefix: string; readonly includeTokens: boolean };
  readonly binding: Binding;
  readonly target: Target;
  readonly state: StateFile<ExportState> | undefined;
  /** If undefined, the export is written to standard output, and cannot be continued. */
  readonly output: OutputFile | undefined;
}

/** Writes all pages, and requests the next page while a page is written. @returns the number of groups */
async function writeAll(
  { session, options, binding, target, state, output }: Export,
  before: ExportState | undefined,
): Promise<number> {
  const { format, prefix, includeTokens } = options;
  const { adminOnce, environment, name, patience, progress } = target;
  const read = (pageToken: string): Page => {
    const request = { environment, pageSize: PAGE_SIZE, pageToken, providedIdPrefix: prefix, includeTokens };
    const page = patiently(patience, () => adminOnce.exportUserGroups(request, { timeoutMs: TIMEOUT_MS }));
    // The caller awaits this promise later. If the promise is rejected before that and has no handler, the rejection
    // crashes the process.
    page.catch(() => {});
    return page;
  };
  const write = async (text: string) => (output ? output.append(text) : text && session.out.text(text));
  let { groups, snapshotTime } = before ?? { groups: 0, snapshotTime: "" };
  await output?.begin(before?.bytes ?? 0);
  let next: Page | undefined = read(before?.pageToken ?? "");
  while (next) {
    const page: ExportUserGroupsResponse = await next;
    const { nextPageToken } = page;
    next = nextPageToken === "" ? undefined : read(nextPageToken);
    await state?.requireOwn();
    if (snapshotTime === "") {
      snapshotTime = timestampDate(page.snapshotTime as Timestamp).toISOString();
      const header = headerText({ snapshotTime, environment: name, prefix });
      await write(format === "csv" ? csvFirstLines(header, includeTokens) : `${header}\n`);
    }
    await write(textOf(page, format, includeTokens));
    groups += page.userGroups.length;
    const bytes = output?.bytes ?? 0;
    if (nextPageToken !== "") await state?.note({ binding, pageToken: nextPageToken, groups, bytes, snapshotTime });
    const fraction = prefix === "" ? groups / Math.max(1, target.count) : undefined;
    progress.show({ groups: groups - (before?.groups ?? 0), fraction });
  }
  await output?.sync();
  await state?.requireOwn();
  await output?.finish();
  return groups;
}

function textOf({ userGroups }: ExportUserGroupsResponse, format: FileFormat, hasTokens: boolean): string {
  const rows = userGroups.map((group) => rowOf(group, hasTokens));
  if (format === "csv") return rows.length === 0 ? "" : csvOf(rows);
  return rows.map((row) => `${JSON.stringify(row)}\n`).join("");
}
