import { type LoggerOptions, type Logger as Pino, pino } from "pino";

/** All fields of log lines. Programs depend on these names, so do not rename a field. */
export const LOG_FIELDS = [
  // Fields that pino adds to every line.
  ...(["level", "time", "pid", "msg"] as const),
  ...(["url", "metrics_url", "workers", "api_tokens", "admin_token", "console", "try"] as const),
  // Fields of calls.
  ...(["request_id", "method", "protocol", "code", "seconds", "peer", "trace_id", "span_id"] as const),
  ...(["environment", "api_token_id", "api_token_name", "user_group_id", "webhook_id", "failures"] as const),
  // Fields of other events.
  ...(["error", "cause", "name", "host", "keys", "nodes", "files", "setting", "settings", "lost", "failed"] as const),
  ...(["worker_pid", "signal", "reason"] as const),
] as const;

type LogField = (typeof LOG_FIELDS)[number];

/** Writes a line. All names of fields must be in `LOG_FIELDS`. */
interface WriteLine {
  (message: string): void;
  <Fields extends { readonly [name in LogField]?: unknown }>(
    fields: Fields & { readonly [name in Exclude<keyof Fields, LogField>]: never },
    message: string,
  ): void;
}

/** The only logger of the service. All output of the logger is redacted. */
export interface Logger extends Pick<Pino, "isLevelEnabled"> {
  readonly debug: WriteLine;
  readonly info: WriteLine;
  readonly warn: WriteLine;
  readonly error: WriteLine;
}

export interface Log {
  readonly logger: Logger;
  /**
   * Logs a line at level info, even if `LOG_LEVEL` is higher. Does not redact the line. Use this function only for
   * generated credentials that the reader of the log needs.
   */
  readonly logUnredacted: WriteLine;
  /** Writes a text to the terminal without redaction. Undefined if the output of the log is not a terminal. */
  readonly print: ((text: string) => void) | undefined;
  /** Adds credentials to redact. The logger redacts these credentials until the process exits. */
  readonly redact: (secrets: readonly string[]) => void;
}

interface LogOptions {
  readonly level: string;
  /** Credentials to redact. Tokens of this service and JWTs are always redacted. */
  readonly secrets: readonly string[];
  /** Writes a line of JSON. Default: writes to standard output. If standard output is a terminal, writes plain text. */
  readonly write?: (line: string) => void;
}

/** Matches tokens of this service, even if they are truncated. The capture group is the kind of token: `t` or `k`. */
export const TOKEN_IN_TEXT = /ug([tk])_[0-9A-Za-z]{8,}/g;

/** Matches viewer sessions and other JWTs in a text, in linear time. */
export const SESSION_IN_TEXT = /(?<![\w-])eyJ[\w-]+\.[\w-]+(?:\.[\w-]*)*/g;

export const REDACTED = "[redacted]";

const USER_INFO = /(?<=:\/\/)[^/@\s]+@/g;

/** The maximum length of an error, in UTF-16 units. Libraries may quote a long request in a message. */
const MAX_ERROR_LENGTH = 1024;

/** Opens the log. If the output is a terminal, the log is plain text. Otherwise, each line is a JSON object. */
export async function openLog({ level, secrets, write }: LogOptions): Promise<Log> {
  const print = (text: string) => void process.stdout.write(text);
  const isTerminal = write === undefined && process.stdout.isTTY;
  const output = write ?? (isTerminal ? (line: string) => print(terminalLine(line)) : print);
  // If the process that reads the log exits, writes fail. Ignore their errors, so that the service continues.
  if (write === undefined) process.stdout.on("error", () => {});
  const known = new Set(secrets);
  const redact = redactor(known);
  // Redact the values instead of the whole line, because a credential may equal the name of a field or of a level.
  const hooks = {
    logMethod(this: Pino, args: unknown[], method: (...args: unknown[]) => void) {
      method.apply(this, args.map(redact));
    },
  };
  const options = {
    level,
    // Workers share the output, so the process id in each line names the worker.
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

/** Describes an error and its cause by name and message, without the stack. Cuts each description to 1 KiB. */
export function errorFields(error: unknown): { error: string; cause?: string } {
  const describe = (value: unknown) => cut(value instanceof Error ? `${value.name}: ${value.message}` : String(value));
  const cause = error instanceof Error ? error.cause : undefined;
  return { error: describe(error), ...(cause !== undefined && { cause: describe(cause) }) };
}

/** Cuts a long text at a space. After a cut inside a credential, the redaction would not detect the remaining part. */
function cut(text: string): string {
  if (text.length <= MAX_ERROR_LENGTH) return text;
  return `${text.slice(0, Math.max(0, text.lastIndexOf(" ", MAX_ERROR_LENGTH)))} [cut]`;
}

/** Returns a function that redacts `secrets`, tokens of this service, JWTs, and the user and password in URLs. */
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
    // If the value is an error, keep only its name, message and cause, because other properties may contain secrets.
    if (value instanceof Error) return redact(errorFields(value));
    return Object.fromEntries(Object.entries(value).map(([name, field]) => [name, redact(field)]));
  };
  return redact;
}

/** Formats a JSON line for a terminal. Escapes control characters, because callers could inject them into fields. */
export function terminalLine(line: string): string {
  const { time, level, msg, pid: _, ...fields } = JSON.parse(line) as { [field: string]: unknown };
  const shown = Object.entries(fields).map(([name, value]) => ` ${name}=${printable(JSON.stringify(value))}`);
  const clock = new Date(String(time)).toTimeString().slice(0, 8);
  return `${clock} ${String(level).toUpperCase().padEnd(5)} ${String(msg)}${shown.join("")}\n`;
}

/** Escapes DEL and the C1 control characters, which some terminals execute. `JSON.stringify` does not escape them. */
function printable(json: string): string {
  return json.replace(/[\u007f-\u009f]/g, (char) => `\\u00${char.charCodeAt(0).toString(16)}`);
}
