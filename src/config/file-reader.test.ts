import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { newFolder } from "@user-group-service/testing/opened";
import { describe, expect, it } from "vitest";
import { type FileContent, FileReader, MAX_FILE_BYTES } from "./file-reader.ts";

async function readAll(reader: FileReader, ...paths: string[]): Promise<string[]> {
  const contents = await reader.readAll(paths.map((path) => [path, path] as const));
  return paths.map((path) => textOf(contents.get(path)));
}

function textOf(content: FileContent | undefined): string {
  return content instanceof Error ? content.message : String(content);
}

describe("files of settings", () => {
  it("a file is read completely up to the maximum size, and is rejected if it is larger", async () => {
    const path = join(newFolder(), "large");
    writeFileSync(path, "é".repeat(MAX_FILE_BYTES / 2));
    expect((await readAll(new FileReader(), path))[0]).toHaveLength(MAX_FILE_BYTES / 2);
    writeFileSync(path, "a".repeat(MAX_FILE_BYTES + 1));
    expect(await readAll(new FileReader(), path)).toEqual([`is too large: more than 1048576 bytes at ${path}`]);
  });

  it("a file is rejected if it is a pipe, a device or a folder", async () => {
    const folder = newFolder();
    const pipe = join(folder, "pipe");
    execFileSync("mkfifo", [pipe]);
    const paths = [pipe, "/dev/zero", folder];
    const refused = paths.map((path) => expect.stringContaining(path));
    expect(await readAll(new FileReader(), ...paths)).toEqual(refused);
  });
});

describe("hanging reads", () => {
  /**
   * Creates a reader of files in memory. If the paths of two files begin with the same letter, the files are on the
   * same mount.
   */
  function memory() {
    const began: string[] = [];
    const hung = new Map<string, () => void>();
    const read = async (path: string) => {
      began.push(path);
      if (hung.has(path)) await new Promise<void>((resolve) => hung.set(path, resolve));
      return { text: `text of ${path}`, device: path.charCodeAt(0) };
    };
    return { began, hung, reader: new FileReader(read, 20) };
  }

  it("a read that hangs ends at its timeout, and makes only the files of the same mount unreadable", async () => {
    const { began, hung, reader } = memory();
    await readAll(reader, "a1", "a2", "b");
    began.length = 0;
    hung.set("a1", () => {});
    for (let i = 0; i < 3; i++) {
      expect(await readAll(reader, "a1", "a2", "b")).toEqual([
        expect.stringMatching(/^cannot be read: no answer from the file system/),
        expect.stringMatching(/^cannot be read: no answer from the file system/),
        "text of b",
      ]);
    }
    expect(began).toEqual(["a1", "b", "b", "b"]);
    const end = hung.get("a1");
    hung.clear();
    end?.();
    await new Promise(setImmediate);
    expect(await readAll(reader, "a1", "a2", "b")).toEqual(["text of a1", "text of a2", "text of b"]);
  });

  it("a read that hangs prevents further reads if another read hangs as well, so that threads stay free for other work", async () => {
    const { began, hung, reader } = memory();
    const paths = ["a", "b", "c", "d", "e"];
    for (const path of paths) hung.set(path, () => {});
    for (let i = 0; i < 3; i++) await readAll(reader, ...paths);
    expect(began).toEqual(["a", "b"]);
  });
});
