import { join } from "node:path";
import { ROOT } from "@user-group-service/testing/process";
import { waitFor } from "@user-group-service/testing/wait";
import type { BenchServer } from "../servers.ts";

/** Settings of a server on Node that lets itself be inspected. */
export const INSPECTABLE = { NODE_OPTIONS: `--import=${join(ROOT, "bench/way/probe.js")}` };

/** Asks V8's inspector in a server that was started with these. @throws when it refuses */
export function inspect(server: Pick<BenchServer, "type" | "log">) {
  let asked = 0;
  return async <T>(method: string, params?: object): Promise<T> => {
    const number = asked++;
    server.type(`${JSON.stringify({ number, method, params })}\n`);
    const line = await waitFor(`${method} is answered`, () =>
      server.log().find(({ msg, number: of }) => msg === "probed" && of === number),
    );
    if (line["error"] !== undefined) throw new Error(`${method}: ${line["error"]}`);
    return line["result"] as T;
  };
}
