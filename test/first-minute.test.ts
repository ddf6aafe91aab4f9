import { execFileSync } from "node:child_process";
import { connect } from "node:net";
import { closeLater, newProcess } from "@user-group-service/testing/opened";
import {
  descendants,
  type RunningProcess,
  startProcess,
  waitUntilGone,
  waitUntilSaid,
} from "@user-group-service/testing/process";
import { denoRun, RUNTIMES, type Runtime } from "@user-group-service/testing/runtime";
import { freePort, waitFor } from "@user-group-service/testing/wait";
import { describe, expect, it } from "vitest";
import { adminOf } from "./support/admin.ts";
import { redisUrl, sharedServer } from "./support/opened.ts";
import { TOKEN_KEYS } from "./support/server.ts";
import { newTerminal } from "./support/terminal.ts";

const COMMANDS: { readonly [runtime in Runtime]: string } = { node: "npm start", deno: "npm run start:deno" };
/** Commands that start the service without npm. */
const BARE: { readonly [runtime in Runtime]: string } = {
  node: `${process.execPath} dist/main.js`,
  deno: `${denoRun().join(" ")} src/main.ts`,
};

const terminal = (command: string, env: { readonly [name: string]: string } = {}) =>
  newTerminal(command, { env: { PORT: "0", ...env } });

/** Starts an npm script. The end of the test kills the process of the script and all its descendants. */
function npm(args: readonly string[], port: number, env: { readonly [name: string]: string } = {}): RunningProcess {
  const started = startProcess(["npm", ...args], { env: { ...env, PORT: String(port) } });
  closeLater(() => {
    for (const pid of [...descendants(started.pid), started.pid]) tryKill(pid);
  });
  return started;
}

const isOpen = (port: number) =>
  new Promise<boolean>((resolve) => {
    const socket = connect(port, "127.0.0.1", () => {
      socket.destroy();
      resolve(true);
    });
    socket.once("error", () => resolve(false));
  });

describe.each(RUNTIMES)("the start in a terminal on %s", (runtime) => {
  it("the service prints its URL and a command to try, and exits on Ctrl-C", async () => {
    const session = terminal(COMMANDS[runtime]);
    const command = await waitFor("the service prints a command", () => /^curl .*\n/m.exec(session.screen())?.[0]);
    const url = /^Serving on (http:\/\/127\.0\.0\.1:\d+)\. Ctrl-C stops the service\.$/m.exec(session.screen())?.[1];
    expect(command).toContain(`'${url}/api/user`);
    const made = [...session.screen().matchAll(/^ {2}(dev\/\w+) +(ugk_\w+)$/gm)];
    expect(made.map(([, environment]) => environment)).toEqual(["dev/Customer", "dev/Testing"]);
    const [, page = "", adminToken] =
      /^The console is on (\S+)\. Sign in with this ADMIN_TOKEN:\r?\n {2}(ugk_\w+)/m.exec(session.screen()) ?? [];
    expect(page).toBe(`${url}/console/`);
    expect((await fetch(page)).status).toBe(200);
    expect(await adminOf(url ?? "", adminToken).getCaller({})).toMatchObject({ role: "root" });
    const answer = execFileSync("sh", ["-s"], {
      input: `${command.trimEnd()} -sS -w '%{http_code}'`,
      encoding: "utf8",
    });
    expect(answer).toMatch(/^\{"success":1,.*\}\n200$/);
    const headers = { authorization: `Token ${made[1]?.[2]}` };
    expect((await fetch(`${url}/api/user?user_group_id=x`, { headers })).status).toBe(200);
    const ours = session.screen().slice(session.screen().indexOf("REDIS_URL is not set"));
    expect(ours).not.toContain('"msg"');
    expect(ours).not.toContain("\u001b[");
    session.type("\x03");
    // If npm forwards the signal while Node is already exiting, the exit code is 130.
    expect([0, 130]).toContain(await session.exited());
    expect(session.screen()).toMatch(/^\d\d:\d\d:\d\d INFO {2}closed$/m);
  });

  const server = sharedServer();
  it("the service prints an error of one sentence if it cannot start", async () => {
    const { port } = new URL(server.url);
    const faults = [
      [{ PORT: port }, new RegExp(`^cannot listen: .*${port}.*; check HOST, PORT and METRICS_PORT$`, "m")],
      [{ METRICS_PORT: port }, new RegExp(`^cannot listen: .*${port}.*; check HOST, PORT and METRICS_PORT$`, "m")],
      [{ HOST: "name.invalid" }, /^cannot listen: .*name\.invalid.*; check HOST, PORT and METRICS_PORT$/m],
      [{ HOST: "203.0.113.9" }, /^cannot listen: .*203\.0\.113\.9.*; check HOST, PORT and METRICS_PORT$/m],
      [{ PORT: "http" }, /^ {2}PORT must be a whole number/m],
    ] as const;
    const tries = faults.map(async ([env, sentence]) => {
      const session = terminal(BARE[runtime], env);
      expect(await session.exited()).toBe(1);
      expect(session.screen()).toMatch(sentence);
      expect(session.screen()).not.toMatch(/\n\s+at |Uncaught/);
    });
    await Promise.all(tries);
  });
});

it.each(RUNTIMES)(
  "the program on %s prints the result of a command-line option, and does not start the service",
  async (runtime) => {
    const lines = [
      ["--help", 0, /^ {2}AUTH_FAILURE_LIMIT {2,}60\/1m {2,}\S/m],
      ["--version", 0, /^\d+\.\d+\.\d+\n$/m],
      ["--port=80", 2, /^argument 1 \(--port\) is unknown/m],
    ] as const;
    const tries = lines.map(async ([arg, exitCode, text]) => {
      const started = newProcess(startProcess([...BARE[runtime].split(" "), arg], { env: { PORT: "0" } }));
      expect([arg, await started.exited()]).toEqual([arg, exitCode]);
      expect(started.output()).toMatch(text);
      expect(started.output()).not.toContain("listening");
    });
    await Promise.all(tries);
  },
);

it("a warning names an environment variable that looks like a setting, but does not contain the value of the variable", async () => {
  const started = newProcess(startProcess(BARE.node.split(" "), { env: { PORT: "0", RATELIMIT: "3/10s" } }));
  await waitUntilSaid(started, "it is ready", (output) => output.includes('"msg":"listening"'));
  expect(started.output()).toMatch(/"level":"warn".*"name":"RATELIMIT","setting":"RATE_LIMIT"/);
  expect(started.output()).not.toContain("3/10s");
});

it.skipIf(redisUrl === undefined).each(RUNTIMES)(
  "on %s, the terminal shows the number of workers, and Ctrl-C stops the workers",
  async (runtime) => {
    const env = { REDIS_URL: redisUrl ?? "", TOKEN_KEYS, WORKERS: "2", API_TOKENS: "e=0123456789abcdef" };
    // On Deno, use the npm script, because it grants the permission that WORKERS needs. On Node, do not use `npm
    // start`, because `npm start` always builds first.
    const session = terminal(runtime === "deno" ? COMMANDS.deno : BARE.node, env);
    await waitFor("the service is ready", () => /^Serving on http\S+ with 2 workers\. Ctrl-C/m.test(session.screen()));
    session.type("\x03");
    expect([0, 130]).toContain(await session.exited());
    expect(session.screen()).toMatch(/INFO {2}closed\n/);
  },
);

describe("npm, stopped by a signal to its own process,", () => {
  const scripts: [string, string[]][] = [
    ["npm start", ["start"]],
    ["npm run start:deno", ["run", "start:deno"]],
  ];

  it.each(scripts)("leaves no processes of %s behind", async (_name, args) => {
    const port = await freePort();
    const script = npm(args, port);
    await waitFor("the service is ready", () => isOpen(port));
    await expectNothingLeft(script, descendants(script.pid), port);
  });

  it("does not start the service if the signal arrives during the build", async () => {
    const port = await freePort();
    const script = npm(["start"], port);
    // npm forwards signals only after the script has started. So wait until the shell, the build and esbuild run.
    const pids = await waitFor("the build is running", () => {
      const found = descendants(script.pid);
      return found.length > 2 ? found : undefined;
    });
    await expectNothingLeft(script, pids, port);
  });

  async function expectNothingLeft(script: RunningProcess, pids: readonly number[], port: number): Promise<void> {
    expect(pids.length).toBeGreaterThan(0);
    closeLater(() => {
      for (const pid of pids) tryKill(pid);
    });
    script.signal("SIGTERM");
    await script.exited();
    for (const pid of pids) await waitUntilGone(pid);
    expect(await isOpen(port)).toBe(false);
  }
});

function tryKill(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // The process has already exited.
  }
}
