import { mkdtempSync, rmSync, statSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { json } from "node:stream/consumers";
import { contentOf } from "@user-group-service/testing/process";
import { type Runtime, UNFORESEEN } from "@user-group-service/testing/runtime";
import { listen } from "@user-group-service/testing/wait";
import {
  ADMIN_ENV,
  apiTokensOf,
  linesOf,
  newEnvironments,
  type ServerEnvironments,
  startServer,
  type TestServer,
} from "./server.ts";

/** Which server a suite shares. */
export interface SharedOptions {
  /** Default `node`. */
  readonly runtime?: Runtime;
  /** Undefined: the embedded store. */
  readonly redisUrl?: string | undefined;
}

/** What a suite is told of a server that others use, too. */
interface Share extends ServerEnvironments {
  readonly url: string;
  readonly pid: number;
  /** What it writes, and how many bytes of it there were when the suite began. */
  readonly file: string;
  readonly from: number;
}

/** How many suites share a server; each has environments of its own. The next suite has another server started. */
const SHARES = 16;

/**
 * Starts servers with `ADMIN_ENV` that the files of all workers share, when they are asked for: to start one takes as
 * much as hundreds of calls.
 *
 * @returns the URL for `takeShare`, and what ends the servers, which throws when one of them does not end well
 */
export async function openSharedServers(): Promise<{ readonly url: string; close(): Promise<void> }> {
  const folder = mkdtempSync(join(tmpdir(), "ugs-shared-"));
  const started: Promise<TestServer>[] = [];
  const free = new Map<string, (() => Promise<Share>)[]>();

  function start(options: SharedOptions): (() => Promise<Share>)[] {
    const all = Array.from({ length: SHARES }, newEnvironments);
    const file = join(folder, String(started.length));
    const env = { ...ADMIN_ENV, REDIS_TIMEOUT: "10s", API_TOKENS: all.map(apiTokensOf).join(",") };
    const server = startServer({ ...options, env, outputFile: file });
    started.push(server);
    return all.map((environments) => async () => {
      const { url, pid } = await server;
      return { ...environments, url, pid, file, from: statSync(file).size };
    });
  }

  const http = createServer(async (req, res) => {
    try {
      const options = (await json(req)) as SharedOptions;
      const key = JSON.stringify(options);
      if (!free.get(key)?.length) free.set(key, start(options));
      res.end(JSON.stringify(await free.get(key)?.shift()?.()));
    } catch (error) {
      res.writeHead(500).end(String(error));
    }
  });
  const url = `http://127.0.0.1:${await listen(http)}`;
  return {
    url,
    close: async () => {
      http.close();
      for (const server of await Promise.all(started)) {
        const code = await server.stop();
        if (code !== 0 || UNFORESEEN.test(server.output())) throw new Error(`ended with ${code}:\n${server.output()}`);
      }
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Takes a share of a server. Its log begins with the share. @param url of `openSharedServers` */
export async function takeShare(url: string, options: SharedOptions): Promise<TestServer> {
  const answer = await fetch(url, { method: "POST", body: JSON.stringify(options) });
  if (!answer.ok) throw new Error(await answer.text());
  const { file, from, ...share } = (await answer.json()) as Share;
  const output = contentOf(file, from);
  const refuse = () => {
    throw new Error("other suites use this server");
  };
  const control = {
    type: refuse,
    endInput: refuse,
    signal: refuse,
    exited: refuse,
    stop: refuse,
    isRunning: () => true,
  };
  return { ...share, ...control, output, log: linesOf(output) };
}
