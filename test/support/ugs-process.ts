import { spawn } from "node:child_process";
import { once } from "node:events";
import { newFolder } from "@user-group-service/testing/opened";
import { ROOT } from "@user-group-service/testing/process";
import { ADMIN_TOKEN } from "./admin.ts";
import type { TestServer } from "./server.ts";

/** `ugs` in a process of its own, as root of a server. */
export function startUgs({ url }: Pick<TestServer, "url">, args: readonly string[]) {
  const { PATH = "" } = process.env;
  const env = { PATH, XDG_CONFIG_HOME: newFolder(), UGS_URL: url, UGS_TOKEN: ADMIN_TOKEN };
  const child = spawn(`${ROOT}/dist/ugs.js`, args, { env });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk: Buffer) => (output += chunk));
  return { child, output: () => output, ended: once(child, "close").then(([code]) => code as number | null) };
}
