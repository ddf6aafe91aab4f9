import { type ChildProcess, fork } from "node:child_process";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { descendants, waitUntilGone } from "@user-group-service/testing/process";
import { RUNTIMES } from "@user-group-service/testing/runtime";
import { waitFor } from "@user-group-service/testing/wait";
import { describe, expect, inject, it } from "vitest";
import type { Log } from "../src/observability/log.ts";
import { Supervisor } from "../src/server/supervisor.ts";
import { describeWithRedis, newServerProcess } from "./support/opened.ts";

const redisUrl = inject("redisUrl");
const WORKER = fileURLToPath(new URL("fixtures/supervisor/worker.js", import.meta.url));

describe("a supervisor", () => {
  const silent = () => {};
  const logger = { debug: silent, info: silent, warn: silent, error: silent, isLevelEnabled: () => false };
  const log: Log = { logger, logUnredacted: silent, print: undefined, redact: silent };
  const supervisor = (args: string[]) => {
    const forked: ChildProcess[] = [];
    const forks = {
      fork: () => {
        const worker = fork(WORKER, args, { execArgv: [] });
        forked.push(worker);
        return worker;
      },
      release: async () => {},
    };
    return {
      forked,
      supervised: new Supervisor({ workers: 2, shutdownTimeoutMs: 20_000, shutdownDelayMs: 0 }, { forks, log }),
    };
  };

  it("drains the other workers if the channel to one worker closes early", async () => {
    const { forked, supervised } = supervisor([]);
    await supervised.start();
    const [first] = forked as [ChildProcess];
    const codes: (number | null)[] = [];
    for (const worker of forked) worker.once("exit", (code) => codes.push(code));
    const closing = supervised.close();
    first.disconnect();
    first.send("to nobody");
    await closing;
    // The second worker had enough time to drain, and both workers have exited.
    expect(codes).toContain(7);
    expect(codes).toHaveLength(2);
  });

  it("exits if workers repeatedly crash before they are ready", async () => {
    const { forked, supervised } = supervisor(["crash"]);
    await expect(supervised.start()).rejects.toThrow("workers exit before they listen (exit code 3)");
    expect(forked.filter(({ exitCode, signalCode }) => exitCode === null && signalCode === null)).toEqual([]);
  });
});

describeWithRedis.each(RUNTIMES)("three workers on %s", (runtime) => {
  const env = { WORKERS: "3", LOG_LEVEL: "debug", API_TOKENS: "e=0123456789abcdef" };
  const start = (settings: { [name: string]: string } = {}) => {
    const server = newServerProcess({ runtime, redisUrl, env: { ...env, ...settings } });
    const says = (text: string) => server.log().filter(({ msg }) => msg === text);
    return { ...server, says, workers: () => descendants(server.pid).filter(isWorker) };
  };

  it("a worker that is killed before it is ready is replaced", async () => {
    const server = start();
    const [victim = 0] = await waitFor("a worker exists", () => atLeast(1, server.workers()));
    process.kill(victim, "SIGKILL");
    await waitFor("the workers are ready", () => server.says("listening").length === 1);
    expect(server.says("listening")[0]).toMatchObject({ workers: 3, url: expect.stringContaining("http://") });
    expect(server.says("a worker exited; the supervisor starts another worker")[0]).toMatchObject({
      worker_pid: victim,
      signal: "SIGKILL",
    });
    expect(server.workers()).toHaveLength(3);
    server.signal("SIGTERM");
    expect(await server.exited()).toBe(0);
  });

  it("a ready worker that is killed while the other workers start is replaced", async () => {
    const server = start();
    const [first = 0, ...others] = await waitFor("three workers exist", () => atLeast(3, server.workers()));
    for (const pid of others) process.kill(pid, "SIGSTOP");
    await waitFor("the first worker is ready", () => server.says("worker listening").some(({ pid }) => pid === first));
    process.kill(first, "SIGKILL");
    await waitUntilGone(first);
    for (const pid of others) process.kill(pid, "SIGCONT");
    await waitFor("the workers are ready", () => server.says("listening").length === 1);
    expect(server.workers()).toHaveLength(3);
    expect(server.workers()).not.toContain(first);
    server.signal("SIGTERM");
    expect(await server.exited()).toBe(0);
  });

  it("all workers exit if one worker is killed while the workers drain", async () => {
    const server = start();
    await waitFor("the workers are ready", () => server.says("listening").length === 1);
    const pids = server.workers();
    process.kill(pids[0] as number, "SIGSTOP");
    server.signal("SIGTERM");
    await waitFor("the workers exit", () => server.says("closed").length >= 2);
    process.kill(pids[0] as number, "SIGKILL");
    expect(await server.exited()).toBe(0);
    expect(server.says("a worker exited; the supervisor starts another worker")).toEqual([]);
    for (const pid of pids) await waitUntilGone(pid);
  });

  it("the workers exit if the supervisor is killed", async () => {
    const server = start();
    await waitFor("the workers are ready", () => server.says("listening").length === 1);
    const pids = server.workers();
    expect(pids).toHaveLength(3);
    server.signal("SIGKILL");
    for (const pid of pids) await waitUntilGone(pid);
  });

  it("the workers exit on a signal before they are ready", async () => {
    const server = start({ REDIS_URL: "redis://127.0.0.1:1" });
    const pids = await waitFor("three workers exist", () => atLeast(3, server.workers()));
    await waitFor("a worker waits for Redis", () =>
      server.log().some(({ msg }) => msg.startsWith("waiting for Redis")),
    );
    server.signal("SIGTERM");
    expect(await server.exited()).toBe(0);
    for (const pid of pids) await waitUntilGone(pid);
  });
});

function atLeast(count: number, pids: number[]): number[] | undefined {
  return pids.length >= count ? pids : undefined;
}

/**
 * Returns whether a forked process already runs the program of a worker. Before that, a test must not stop the process,
 * because a stop between fork and exec also blocks the supervisor.
 */
function isWorker(pid: number): boolean {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8").includes("--worker=");
  } catch {
    return false;
  }
}
