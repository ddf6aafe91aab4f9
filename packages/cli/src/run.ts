import { CommanderError } from "commander";
import { InvalidInput } from "../../operator/src/input.ts";
import { complete } from "./complete.ts";
import { EXIT, Failure, OutputClosed, usageFailure } from "./failures.ts";
import { unwritable } from "./files.ts";
import { reportOf } from "./output/report.ts";
import { createProgram } from "./program.ts";
import { Interrupted, type Shell } from "./shell.ts";
import { welcome } from "./welcome.ts";

/**
 * Runs a command line.
 *
 * @param args the arguments after the program name
 * @returns the exit code
 */
export async function runUgs(args: readonly string[], shell: Shell): Promise<number> {
  try {
    if (args.length === 0) await welcome(shell);
    // The completion scripts run `ugs complete -- WORDS`.
    else if (args[0] === "complete") await complete(createProgram(shell), args.slice(args[1] === "--" ? 2 : 1), shell);
    else {
      requireUtf8(args);
      await createProgram(shell).parseAsync(args, { from: "user" });
    }
    return EXIT.ok;
  } catch (error) {
    if (error instanceof OutputClosed) return EXIT.ok;
    if (error instanceof CommanderError && error.exitCode === 0) return EXIT.ok;
    if (error instanceof CommanderError && error.code === "commander.help") return EXIT.usage;
    const failure = failureOf(error, shell.signal.reason);
    shell.stderr.write(reportOf(failure, args.includes("--json")));
    return failure.detail.exitCode;
  }
}

/**
 * Refuses arguments that are not valid UTF-8. Node decodes each invalid byte to U+FFFD, so different ids would become
 * equal.
 */
function requireUtf8(args: readonly string[]): void {
  const number = args.findIndex((arg) => arg.includes("\ufffd")) + 1;
  if (number > 0)
    throw usageFailure(`argument ${number} is not valid UTF-8, or contains U+FFFD`, "give the argument in UTF-8");
}

function failureOf(error: unknown, reason: unknown): Failure {
  // If the signal has aborted, the error is most likely a consequence of the interruption.
  const interrupted = error instanceof Interrupted ? error : reason instanceof Interrupted ? reason : undefined;
  if (interrupted) {
    // The service may have executed the call in flight, so the report includes its outcome.
    const outcome = error instanceof Failure ? error.detail.outcome : undefined;
    return new Failure("interrupted", { exitCode: interrupted.exitCode, outcome });
  }
  if (error instanceof Failure) return error;
  // The functions that write files convert a system error to a `Failure`. Only a write to standard output throws the
  // system error itself.
  if ((error as { syscall?: unknown }).syscall === "write")
    return unwritable("standard output", error, "run the same command again") as Failure;
  if (error instanceof CommanderError) return commandLineFailure(error);
  if (error instanceof InvalidInput) return usageFailure(error.message.replace(/\.$/, ""));
  const text = error instanceof Error ? error.message : String(error);
  const hint = "this is a bug: please report it together with the command";
  return new Failure(text, { exitCode: EXIT.failed, hint, cause: error });
}

/** Converts an error of commander. Removes the values from the message, because a value may be a secret. */
function commandLineFailure({ message }: CommanderError): Failure {
  const text = message
    .replace(/^error: /, "")
    .replace(/(--?[\w-]+)=[^']*/g, "$1")
    .replaceAll("\n", " ");
  const hint = /'--token'/.test(text)
    ? "other users can see arguments: give --token-file FILE or UGS_TOKEN, or run: ugs login"
    : "--help shows the arguments and options";
  return usageFailure(text, hint);
}
