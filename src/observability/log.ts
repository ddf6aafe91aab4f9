import { type LoggerOptions, type Logger as Pino, pino } from "pino";
import { terminalLine } from "./terminal.ts";

/** The only logger: whatever it writes is redacted. */
export type Logger = Pick<Pino, "debug" | "info" | "warn" | "error" | "isLevelEnabled">;

/** A logger, and the one way past its redaction. */
export interface Log {
  readonly logger: Logger;
  /**
   * Logs at level info without redaction, whatever the level of the log is: for
   * credentials that were made for whoever reads the log, and stand nowhere else.
   */
  readonly announce: (fields: object, message: string) => void;
  /** Writes text for a person, without redaction; undefined where the log is not on a terminal. */
  readonly print: ((text: string) => void) | undefined;
}

/** What the log is made of. */
export interface LogOptions {
  readonly level: string;
  /** Credentials that are no tokens of this service by their looks. */
  readonly secrets: readonly string[];
  /** Writes a line; default: standard output, as a person reads it where that is a terminal. */
  readonly write?: (line: string) => void;
}

const TOKEN = /ug([tk])_[0-9A-Za-z]{8,}/g;
const USER_INFO = /([a-z]+:\/\/)[^/@\s]+@/gi;

/** Opens the log: JSON lines, but on a terminal. */
export async function openLog({ level, secrets, write }: LogOptions): Promise<Log> {
  const print = (text: string) => void process.stdout.write(text);
  const isTerminal = write === undefined && process.stdout.isTTY;
  const output = write ?? (isTerminal ? (line: string) => print(terminalLine(line)) : print);
  // Whoever read the log is gone; the service goes on.
  if (write === undefined) process.stdout.on("error", () => {});
  const redact = redactor(secrets);
  // By value, not in the line: a credential that reads like a field's name or a level rewrites neither.
  const hooks = {
    logMethod(this: Pino, args: unknown[], method: (...args: unknown[]) => void) {
      method.apply(this, args.map(redact));
    },
  };
  const options = {
    level,
    base: null,
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (label: string) => ({ level: label }) },
  };
  const logger = pino({ ...options, hooks } as LoggerOptions, { write: output });
  const plain = pino({ ...options, level: "info" }, { write: output });
  return {
    logger,
    announce: (fields, message) => plain.info(fields, message),
    print: isTerminal ? print : undefined,
  };
}

/** What stays of an error in the log: no stack of a library's, and none of its fields. */
export function errorFields(error: unknown): { error: string; cause?: string } {
  const describe = (value: unknown) => (value instanceof Error ? `${value.name}: ${value.message}` : String(value));
  const cause = error instanceof Error ? error.cause : undefined;
  return { error: describe(error), ...(cause !== undefined && { cause: describe(cause) }) };
}

/** Credentials in what is logged: tokens of this service, the user and password of a URL, and the given secrets. */
function redactor(secrets: readonly string[]): (value: unknown) => unknown {
  const redactText = (text: string): string => {
    let redacted = text.replace(TOKEN, "ug$1_[redacted]").replace(USER_INFO, "$1[redacted]@");
    for (const secret of secrets) redacted = redacted.replaceAll(secret, "[redacted]");
    return redacted;
  };
  const redact = (value: unknown): unknown => {
    if (typeof value === "string") return redactText(value);
    if (Array.isArray(value)) return value.map(redact);
    if (typeof value !== "object" || value === null) return value;
    // An error has fields that nobody has looked through; its text is what is told of it.
    if (value instanceof Error) return redact(errorFields(value));
    return Object.fromEntries(Object.entries(value).map(([name, field]) => [name, redact(field)]));
  };
  return redact;
}
