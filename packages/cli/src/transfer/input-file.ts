import { createHash } from "node:crypto";
import { type FileHandle, open } from "node:fs/promises";
import type { Readable } from "node:stream";
import { usageFailure } from "../failures.ts";
import { reading } from "../files.ts";
import { columnsOf, readCsv } from "./csv.ts";
import { readHeader } from "./header.ts";
import { readJsonLines } from "./jsonl.ts";
import { linesOf } from "./lines.ts";
import { type FileFormat, type GroupSource, MAX_RECORD_BYTES, type ReadOptions } from "./records.ts";

/** `identityOf` reads this many bytes at the start and at the end of a file. */
const END_BYTES = 64 * 1024;

/**
 * Opens a file of groups.
 *
 * @param path the path of the file, or `-` to read standard input
 * @param format the format of the content. If undefined, the extension of the file name determines the format. If the
 *   extension is unknown, the first character of the content determines the format
 * @throws Failure if the file cannot be read, or is neither JSON Lines nor CSV
 */
export async function openInputFile(
  path: string,
  { stdin, format, ...options }: ReadOptions & { readonly stdin: Readable; readonly format?: FileFormat | undefined },
): Promise<GroupSource> {
  if (path === "-") return { ...(await readGroups(stdin, options, format)), fraction: () => undefined };
  const file = await reading(path, () => open(path, "r"));
  try {
    const stat = await file.stat();
    if (stat.isDirectory()) throw usageFailure(`cannot read ${path}: it is a directory`);
    const identity = stat.isFile() ? await identityOf(file, stat.size) : undefined;
    // If another program appends to the file during the import, the last line may be incomplete. For this reason, read
    // only the bytes that the file has now. A pipe has no positions, and thus no such limit.
    const part = stat.isFile() && { start: 0, end: Math.max(0, stat.size - 1) };
    const stream = file.createReadStream({ autoClose: false, ...part });
    return {
      ...(await readGroups(stream, options, format ?? formatOf(path))),
      identity,
      fraction: () => (stat.isFile() ? stream.bytesRead / Math.max(1, stat.size) : undefined),
      hasChanged: async () => identity !== undefined && identity !== (await identityOf(file, (await file.stat()).size)),
      close: () => file.close(),
    };
  } catch (error) {
    await file.close();
    throw error;
  }
}

/** Returns the format for the extension of a file name. Returns undefined if the extension is unknown. */
export function formatOf(path: string): FileFormat | undefined {
  if (/\.csv$/i.test(path)) return "csv";
  return /\.(jsonl|ndjson)$/i.test(path) ? "jsonl" : undefined;
}

async function readGroups(stream: Readable, options: ReadOptions, named: FileFormat | undefined) {
  const lines = linesOf(stream, MAX_RECORD_BYTES);
  const { header, firstLines, first } = await readHeader(lines);
  const format = named ?? formatIn(first?.bytes.toString("latin1").trimStart() ?? "");
  if (first && format === "csv") {
    const records = readCsv(lines, columnsOf(first, options));
    return { header, firstLines: [...firstLines, first.bytes.toString()], records, format };
  }
  return { header, firstLines, records: readJsonLines(first, lines, options), format };
}

function formatIn(text: string): FileFormat {
  if (text.startsWith("["))
    throw usageFailure("the input is a JSON array, not JSON Lines", "write one object per line: jq -c '.[]' FILE");
  if (text.startsWith("\u001f\u008b"))
    throw usageFailure("the input is compressed", "decompress the input: gunzip -c FILE | ugs import -");
  return text.startsWith("{") ? "jsonl" : "csv";
}

/** Identifies the content of a file by its size, and by a digest of its first and last bytes. */
async function identityOf(file: FileHandle, bytes: number): Promise<string> {
  const digest = createHash("sha256");
  for (const position of [0, Math.max(0, bytes - END_BYTES)]) {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(END_BYTES), 0, END_BYTES, position);
    digest.update(buffer.subarray(0, bytesRead));
  }
  return `${bytes} bytes, ${digest.digest("hex")}`;
}
