import { CommanderError } from "commander";
import { EXIT, Failure, OutputClosed, usageFailure } from "./failures.ts";
import { unwritable } from "./files.ts";
import { reportOf, unforeseen } from "./output/report.ts";
import { createProgram, loadCommands } from "./program.ts";
import { Interrupted, type Shell } from "./shell.ts";

/** Runs a command line. @param args what follows the name of the program @returns the exit code */
export async function runUgs(args: readonly string[], shell: Shell): Promise<number> {
  try {
    if (args.length === 0) await (await import("./welcome.ts")).welcome(shell);
    else if (args[0] === "complete") await answerCompletion(args, shell);
    else {
      const program = createProgram(shell);
      // Commander shows this help without running the command.
      if (args[0] === "help") await loadCommands(program, shell);
      await program.parseAsync(args, { from: "user" });
    }
    return EXIT.ok;
  } catch (error) {
    // The reader of the output has enough.
    if (error instanceof OutputClosed) return EXIT.ok;
    if (error instanceof CommanderError && error.exitCode === 0) return EXIT.ok;
    if (error instanceof CommanderError && error.code === "commander.help") return EXIT.usage;
    const failure = failureOf(error, shell.signal.reason);
    shell.stderr.write(reportOf(failure, args.includes("--json")));
    return failure.detail.exitCode;
  }
}

/** Answers what the script of `ugs completion` asks by `ugs complete -- WORDS`. */
async function answerCompletion(args: readonly string[], shell: Shell): Promise<void> {
  const { complete } = await import("./complete.ts");
  const program = createProgram(shell);
  await loadCommands(program, shell);
  await complete(program, args.slice(args[1] === "--" ? 2 : 1), shell);
}

/** The failure that is shown for an error. @param reason of the signal, when it has aborted */
function failureOf(error: unknown, reason: unknown): Failure {
  const interrupted = error instanceof Interrupted ? error : reason instanceof Interrupted ? reason : undefined;
  if (interrupted) {
    // A call that was under way may have had its effect.
    const outcome = error instanceof Failure ? error.detail.outcome : undefined;
    return new Failure("interrupted", { exitCode: interrupted.exitCode, outcome });
  }
  if (error instanceof Failure) return error;
  // Errors of files are explained where files are written, so this one is of standard output.
  if ((error as { syscall?: unknown }).syscall === "write")
    return unwritable("standard output", error, "run the same command again") as Failure;
  return error instanceof CommanderError ? commandLineFailure(error) : unforeseen(error);
}

/** The failure for commander's error, without words of the command line that may be secret. */
function commandLineFailure({ message }: CommanderError): Failure {
  const text = message
    .replace(/^error: /, "")
    .replace(/(--?[\w-]+)=[^']*/g, "$1")
    .replaceAll("\n", " ");
  const hint = /'--token'/.test(text)
    ? "a token is never an argument, where others could see it: give --token-file FILE or UGS_TOKEN, or run: ugs login"
    : "run it with --help to see what there is";
  return usageFailure(text, hint);
}
