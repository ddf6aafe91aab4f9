import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { createFileRegistry, type FileRegistry, fromBinary } from "@bufbuild/protobuf";
import { FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";

const BUF = fileURLToPath(new URL("../../node_modules/.bin/buf", import.meta.url));

/** Compiles the text of a proto file. The file can import only the well-known types. */
export function compileProto(text: string): FileRegistry {
  const folder = mkdtempSync(join(tmpdir(), "proto-"));
  try {
    writeFileSync(join(folder, "test.proto"), text);
    const image = execFileSync(BUF, ["build", folder, "--as-file-descriptor-set", "-o", "-#format=binpb"]);
    return createFileRegistry(fromBinary(FileDescriptorSetSchema, image));
  } finally {
    rmSync(folder, { recursive: true });
  }
}
