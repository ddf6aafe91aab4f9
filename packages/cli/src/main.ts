import { runUgs } from "./run.ts";
import { Interrupted } from "./shell.ts";

const controller = new AbortController();
for (const signal of ["SIGINT", "SIGTERM"] as const) {
  process.on(signal, () => {
    // A second signal ends the process at once.
    if (controller.signal.aborted) process.exit(new Interrupted(signal).exitCode);
    controller.abort(new Interrupted(signal));
  });
}
// Whoever writes to a stream gets its errors, such as that nobody reads the pipe. Without a listener they would end the
// process.
for (const stream of [process.stdout, process.stderr]) stream.on("error", () => {});

const { env, stdin, stdout, stderr } = process;
process.exitCode = await runUgs(process.argv.slice(2), { env, stdin, stdout, stderr, signal: controller.signal });

// What may still be open, such as a pipe that nobody writes to, must not keep the process alive.
process.stdin.destroy();
setTimeout(() => process.exit(), 1000).unref();
