import { runUgs } from "./run.ts";
import { Interrupted } from "./shell.ts";

const controller = new AbortController();
for (const signal of ["SIGINT", "SIGTERM"] as const) {
  process.on(signal, () => {
    // At a second signal, the process exits immediately.
    if (controller.signal.aborted) process.exit(new Interrupted(signal).exitCode);
    controller.abort(new Interrupted(signal));
  });
}
// The functions that write to these streams handle write errors, such as a closed pipe. A stream also emits the error
// as an event. If the event had no listener, the error would crash the process.
for (const stream of [process.stdout, process.stderr]) stream.on("error", () => {});

const { env, stdin, stdout, stderr } = process;
process.exitCode = await runUgs(process.argv.slice(2), { env, stdin, stdout, stderr, signal: controller.signal });

// An open standard input must not keep the process alive.
process.stdin.destroy();
setTimeout(() => process.exit(), 1000).unref();
