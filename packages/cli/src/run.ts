import { CommanderError } from "commander";
import { EXIT, Failure, usageFailure } from "./failures.ts";
import { OutputClosed } from "./output/output.ts";
import { reportOf, unforeseen } from "./output/report.ts";
import { createProgram } from "./program.ts";
import { Interrupted, type Shell } from "./shell.ts";

/** Runs a command line. @param args what follows the name of the program @returns the exit code */
export async function runUgs(args: readonly string[], shell: Shell): Promise<number> {
  try {
    await createProgram(shell).parseAsync(args, { from: "user" });
    return EXIT.ok;
  } catch (error) {
    // Whoever reads has enough.
    if (error instanceof OutputClosed) return EXIT.ok;
    if (error instanceof CommanderError && error.exitCode === 0) return EXIT.ok;
    if (error instanceof CommanderError && error.code === "commander.help") return EXIT.usage;
    const isJson = args.includes("--json");
    const { reason } = shell.signal;
    const interrupted = error instanceof Interrupted ? error : reason instanceof Interrupted ? reason : undefined;
    const failure = interrupted ? interruption(interrupted, error) : failureOf(error);
    shell.stderr.write(reportOf(failure, isJson));
    return failure.detail.exitCode;
  }
}

function failureOf(error: unknown): Failure {
  if (error instanceof Failure) return error;
  if (error instanceof CommanderError) return commandLineFailure(error);
  return unforeseen(error);
}

function interruption({ exitCode }: Interrupted, error: unknown): Failure {
  // A call that was under way may have had its effect.
  const isCall = error instanceof Failure;
  return new Failure("interrupted", { exitCode, outcome: isCall ? "unknown" : undefined });
}

/** What commander says of a command line, without what may be a secret. */
function commandLineFailure({ message }: CommanderError): Failure {
  const text = message.replace(/^error: /, "").replace(/(--?[\w-]+)=[^']*/g, "$1");
  const isToken = /'--token'/.test(text);
  return usageFailure(
    text.replaceAll("\n", " "),
    isToken
      ? "a token is never an argument, where others could see it: give --token-file FILE or UGS_TOKEN, or run: ugs login"
      : "run it with --help to see what there is",
  );
}
