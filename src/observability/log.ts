import { type LoggerOptions, type Logger as Pino, pino } from "pino";

/** Every field that a line of the log may have: what a program that reads the log may rely on. */
export const LOG_FIELDS = [
  // Of every line, by pino itself.
  ...(["level", "time", "pid", "msg"] as const),
  ...(["url", "metrics_url", "workers", "api_tokens", "admin_token", "console", "try"] as const),
  // Of calls.
  ...(["request_id", "method", "protocol", "code", "seconds", "peer", "trace_id", "span_id"] as const),
  ...(["environment", "api_token_id", "api_token_name", "user_group_id", "failures"] as const),
  // Of whatever else happens.
  ...(["error", "cause", "name", "host", "keys", "nodes", "files", "setting", "settings", "lost", "failed"] as const),
  ...(["worker_pid", "signal", "reason", "calls"] as const),
] as const;

type LogField = (typeof LOG_FIELDS)[number];

/** Writes a line. Its fields are of `LOG_FIELDS`, whichever object they come from. */
interface WriteLine {
  (message: string): void;
  <Fields extends { readonly [name in LogField]?: unknown }>(
    fields: Fields & { readonly [name in Exclude<keyof Fields, LogField>]: never },
    message: string,
  ): void;
}

/** The only logger. It redacts everything it writes. */
export interface Logger extends Pick<Pino, "isLevelEnabled"> {
  readonly debug: WriteLine;
  readonly info: WriteLine;
  readonly warn: WriteLine;
  readonly error: WriteLine;
}

/** A logger, and the two ways to bypass its redaction. */
export interface Log {
  readonly logger: Logger;
  /**
   * Logs at level info without redaction, whatever the log level: for credentials that were generated for the reader of
   * the log and appear nowhere else.
   */
  readonly logUnredacted: WriteLine;
  /** Writes text for a person, without redaction; undefined when the log does not go to a terminal. */
  readonly print: ((text: string) => void) | undefined;
  /** Has further credentials redacted, for as long as the process lasts. */
  readonly redact: (secrets: readonly string[]) => void;
}

/** Options of the log. */
interface LogOptions {
  readonly level: string;
  /** Credentials to redact that do not look like tokens of this service. */
  readonly secrets: readonly string[];
  /** Writes a line. Default: to standard output, formatted for a person on a terminal. */
  readonly write?: (line: string) => void;
}

/**
 * Finds in a text what may be a token of this service: whole, cut, or with something behind it. Its first group is the
 * kind, `t` or `k`.
 */
export const TOKEN_IN_TEXT = /ug([tk])_[0-9A-Za-z]{8,}/g;

/** Finds in a text what may be a viewer session, or another JWT. No text is scanned twice for it, however long it is. */
export const SESSION_IN_TEXT = /(?<![\w-])eyJ[\w-]+\.[\w-]+(?:\.[\w-]*)*/g;

/** What stands in place of a credential. */
export const REDACTED = "[redacted]";

/** The user and password of a URL. No text is scanned twice for it, however long it is. */
const USER_INFO = /(?<=:\/\/)[^/@\s]+@/g;

/** The longest text of an error that is logged, in UTF-16 units. Libraries quote requests, which may be long. */
const MAX_ERROR_LENGTH = 1024;

/** Opens the log: JSON lines, or lines for a person on a terminal. */
export async function openLog({ level, secrets, write }: LogOptions): Promise<Log> {
  const print = (text: string) => void process.stdout.write(text);
  const isTerminal = write === undefined && process.stdout.isTTY;
  const output = write ?? (isTerminal ? (line: string) => print(terminalLine(line)) : print);
  // The reader of the log has gone; the service continues.
  if (write === undefined) process.stdout.on("error", () => {});
  const known = new Set(secrets);
  const redact = redactor(known);
  // Redacts values, not the final line, so that a credential that equals a field name or level does not corrupt the
  // line.
  const hooks = {
    logMethod(this: Pino, args: unknown[], method: (...args: unknown[]) => void) {
      method.apply(this, args.map(redact));
    },
  };
  const options = {
    level,
    // Workers write to one output.
    base: { pid: process.pid },
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (label: string) => ({ level: label }) },
  };
  const logger = pino({ ...options, hooks } as LoggerOptions, { write: output });
  const plain = pino({ ...options, level: "info" }, { write: output });
  return {
    logger,
    logUnredacted: plain.info.bind(plain) as WriteLine,
    print: isTerminal ? print : undefined,
    redact(more) {
      for (const secret of more) known.add(secret);
    },
  };
}

/**
 * The log fields of an error: name and message of the error and its cause, without stack and other properties, each cut
 * to 1 KiB before it is searched for credentials.
 */
export function errorFields(error: unknown): { error: string; cause?: string } {
  const describe = (value: unknown) => cut(value instanceof Error ? `${value.name}: ${value.message}` : String(value));
  const cause = error instanceof Error ? error.cause : undefined;
  return { error: describe(error), ...(cause !== undefined && { cause: describe(cause) }) };
}

/** Cuts a long text at a space: half of a credential would not be recognized, and credentials have no spaces. */
function cut(text: string): string {
  if (text.length <= MAX_ERROR_LENGTH) return text;
  return `${text.slice(0, Math.max(0, text.lastIndexOf(" ", MAX_ERROR_LENGTH)))} [cut]`;
}

/**
 * Makes a function that redacts credentials: tokens of this service, the user and password of URLs, and the given
 * secrets.
 */
function redactor(secrets: Iterable<string>): (value: unknown) => unknown {
  const redactText = (text: string): string => {
    let redacted = text
      .replace(TOKEN_IN_TEXT, `ug$1_${REDACTED}`)
      .replace(SESSION_IN_TEXT, REDACTED)
      .replace(USER_INFO, `${REDACTED}@`);
    for (const secret of secrets) redacted = redacted.replaceAll(secret, REDACTED);
    return redacted;
  };
  const redact = (value: unknown): unknown => {
    if (typeof value === "string") return redactText(value);
    if (Array.isArray(value)) return value.map(redact);
    if (typeof value !== "object" || value === null) return value;
    // Other properties of an error may contain secrets; only its name and message are logged.
    if (value instanceof Error) return redact(errorFields(value));
    return Object.fromEntries(Object.entries(value).map(([name, field]) => [name, redact(field)]));
  };
  return redact;
}

/**
 * Formats a log line for a terminal, without colours: time of day, level, message, and the fields as JSON, so that
 * caller input cannot send control characters to the terminal.
 *
 * @param line JSON, as in the log elsewhere
 */
export function terminalLine(line: string): string {
  // A person reads one process.
  const { time, level, msg, pid: _, ...fields } = JSON.parse(line) as { [field: string]: unknown };
  const shown = Object.entries(fields).map(([name, value]) => ` ${name}=${printable(JSON.stringify(value))}`);
  const clock = new Date(String(time)).toTimeString().slice(0, 8);
  return `${clock} ${String(level).toUpperCase().padEnd(5)} ${String(msg)}${shown.join("")}\n`;
}

/** Escapes DEL and the C1 control characters, which some terminals interpret. JSON escapes the other ones. */
function printable(json: string): string {
  return json.replace(/[\u007f-\u009f]/g, (char) => `\\u00${char.charCodeAt(0).toString(16)}`);
}
