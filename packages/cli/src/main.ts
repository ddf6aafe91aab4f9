import { runUgs } from "./run.ts";
import { Interrupted } from "./shell.ts";

const controller = new AbortController();
for (const signal of ["SIGINT", "SIGTERM"] as const) {
  process.on(signal, () => {
    // A second one does not wait for anything.
    if (controller.signal.aborted) process.exit(new Interrupted(signal).exitCode);
    controller.abort(new Interrupted(signal));
  });
}
// What is written to a pipe that nobody reads is told to whoever wrote it.
for (const stream of [process.stdout, process.stderr]) stream.on("error", () => {});

const { env, stdin, stdout, stderr } = process;
process.exitCode = await runUgs(process.argv.slice(2), { env, stdin, stdout, stderr, signal: controller.signal });

// What may still be open, such as a pipe that nobody writes to, does not keep the process.
process.stdin.destroy();
setTimeout(() => process.exit(), 1000).unref();
