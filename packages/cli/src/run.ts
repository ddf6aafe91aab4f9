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
    // Whoever reads has enough.
    if (error instanceof OutputClosed) return EXIT.ok;
    if (error instanceof CommanderError && error.exitCode === 0) return EXIT.ok;
    if (error instanceof CommanderError && error.code === "commander.help") return EXIT.usage;
    const failure = failureOf(error, shell.signal.reason);
    shell.stderr.write(reportOf(failure, args.includes("--json")));
    return failure.detail.exitCode;
  }
}

/** What the script of `ugs completion` asks: `ugs complete -- WORDS`. */
async function answerCompletion(args: readonly string[], shell: Shell): Promise<void> {
  const { complete } = await import("./complete.ts");
  const program = createProgram(shell);
  await loadCommands(program, shell);
  await complete(program, args.slice(args[1] === "--" ? 2 : 1), shell);
}

/** What is said of an error. @param reason of the signal, when it has aborted */
function failureOf(error: unknown, reason: unknown): Failure {
  const interrupted = error instanceof Interrupted ? error : reason instanceof Interrupted ? reason : undefined;
  if (interrupted) {
    // A call that was under way may have had its effect.
    const outcome = error instanceof Failure ? error.detail.outcome : undefined;
    return new Failure("interrupted", { exitCode: interrupted.exitCode, outcome });
  }
  if (error instanceof Failure) return error;
  // Of files it is told where they are written.
  if ((error as { syscall?: unknown }).syscall === "write")
    return unwritable("standard output", error, "run the same command again") as Failure;
  return error instanceof CommanderError ? commandLineFailure(error) : unforeseen(error);
}

/** What commander says of a command line, without what may be a secret. */
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
