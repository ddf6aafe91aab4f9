import { open, rename, rm } from "node:fs/promises";
import { dirname } from "node:path";
import { type Timestamp, timestampDate } from "@bufbuild/protobuf/wkt";
import { pages } from "@user-group-service/client";
import type { ExportUserGroupsResponse } from "../../../../gen/usergroup/admin/v1/admin_service_pb.ts";
import { countText } from "../../../operator/src/words.ts";
import { environmentOf } from "../commands/options.ts";
import { CONTINUE, usageFailure } from "../failures.ts";
import { refusePresent, writing } from "../files.ts";
import { jsonLine } from "../output/printable.ts";
import type { Session } from "../session.ts";
import { csvFirstLines, csvOf } from "./csv.ts";
import { rowOf } from "./group-row.ts";
import { GrowingFile } from "./growing-file.ts";
import { headerText } from "./header.ts";
import { formatOf } from "./input-file.ts";
import { patiently } from "./patience.ts";
import type { FileFormat } from "./records.ts";
import { type Binding, type TransferState, withState } from "./state-file.ts";
import { continuable, openTarget } from "./target.ts";

interface ExportFlags {
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

const PAGE_SIZE = 1000;
const TIMEOUT_MS = 60_000;

/**
 * Runs `ugs export`.
 *
 * @param path the path of the file to write. If `path` is `-` or undefined, writes to standard output
 * @throws Failure if an option is not valid, or if the export fails
 */
export async function exportGroups(session: Session, path: string | undefined, flags: ExportFlags): Promise<void> {
  const { out } = session;
  const file = path === "-" ? undefined : path;
  if (file === undefined && flags.includeTokens && out.isTerminal)
    throw usageFailure("a terminal must not show the tokens", "give a file, which ugs makes readable only for you");
  const format = flags.format ?? (file === undefined ? undefined : formatOf(file)) ?? "jsonl";
  const target = await openTarget(session, environmentOf(session, flags), "exported");
  // Until the export is complete, the name of the file ends in `.part`.
  const output = file === undefined ? undefined : new GrowingFile(`${file}.part`, CONTINUE);
  const { prefix = "", includeTokens = false, force = false, restart: isRestart = false } = flags;
  const { adminOnce, connection, environment, name, patience, progress } = target;
  const binding: Binding = {
    url: connection.url.href,
    environment: name,
    options: JSON.stringify({ format, prefix, includeTokens }),
  };
  const list: typeof adminOnce.exportUserGroups = (request) =>
    patiently(patience, () => adminOnce.exportUserGroups(request, { timeoutMs: TIMEOUT_MS }));
  const write = async (text: string) => (output ? output.append(text) : text && out.text(text));

  /** Writes all pages. @returns the number of groups */
  const transfer = async (state?: TransferState<ExportState>) => {
    const before = state?.before;
    let { groups, snapshotTime } = before ?? { groups: 0, snapshotTime: "" };
    if (file !== undefined) await refusePresent(file, force);
    // Do not write to an existing file, because it may be a link, or readable by other users.
    await output?.begin(before?.bytes ?? 0, () => rm(output.path, { force: true }));
    const pageToken = before?.pageToken ?? "";
    const request = { environment, pageSize: PAGE_SIZE, pageToken, providedIdPrefix: prefix, includeTokens };
    for await (const page of pages(list, request)) {
      const { nextPageToken } = page;
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
    if (file !== undefined && output) await publish(output, file, force);
    return groups;
  };
  const stored = output && { binding, isRestart, sync: () => output.sync() };
  const run = () =>
    (stored ? withState(`${file}.export-state`, stored, transfer) : transfer()).finally(() => output?.close());
  const groups = await continuable(session, target, stored ? CONTINUE : "run the same command again", run);
  if (file === undefined) return;
  if (out.isJson) return out.line(jsonLine({ summary: { file, groups, environment: target.name } }));
  await out.line(`exported ${countText(groups, "group")} of ${target.name} to ${file}`);
}

/** Renames a complete file to its final name. @throws Failure if the path exists and `mayReplace` is false */
async function publish(output: GrowingFile, path: string, mayReplace: boolean): Promise<void> {
  await refusePresent(path, mayReplace);
  await output.close();
  await writing(path, CONTINUE, async () => {
    await rename(output.path, path);
    // Flushes the directory entry to disk.
    const folder = await open(dirname(path), "r");
    await folder.sync().finally(() => folder.close());
  });
}

function textOf({ userGroups }: ExportUserGroupsResponse, format: FileFormat, hasTokens: boolean): string {
  const rows = userGroups.map((group) => rowOf(group, hasTokens));
  if (format === "csv") return rows.length === 0 ? "" : csvOf(rows);
  return rows.map((row) => `${JSON.stringify(row)}\n`).join("");
}
