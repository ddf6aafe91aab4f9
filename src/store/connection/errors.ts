import type { HostPort } from "./url.ts";

/* Only this file parses the error messages of Redis and ioredis. */

/** Redis cannot be used with this configuration. The message contains the remedy. A retry does not help. */
export class StoreMisconfigured extends Error {
  override readonly name = "StoreMisconfigured";
}

export class NotSent extends Error {
  override readonly name: string = "NotSent";
}

/** A command was not sent, because the slot of its keys is migrating to another node of the Cluster. */
export class KeysMoving extends NotSent {
  override readonly name = "KeysMoving";
  constructor() {
    super("the slot of the keys is migrating to another node");
  }
}

/** Returns whether the command certainly did not reach Redis. */
export function isNotSent(error: unknown): boolean {
  return error instanceof NotSent || (error instanceof Error && error.message.startsWith("Stream isn't writeable"));
}

const NOT_ANSWERED = /maxRetriesPerRequest|Connection is closed|Stream isn't writeable/;

/**
 * Returns the message of an error. Replaces messages of ioredis about a lost connection, because they contain the names
 * of ioredis options.
 */
export function messageOf(error: unknown): string {
  if (error instanceof AggregateError) return error.errors.map(messageOf).join("; ");
  const text = error instanceof Error ? error.message : String(error);
  return !isRefusal(error) && NOT_ANSWERED.test(text) ? "the connection closed before Redis answered" : text;
}

/** Returns whether Redis answered a command with this error. */
export function isRefusal(error: unknown): error is Error {
  return error instanceof Error && error.name === "ReplyError";
}

/** With these codes, a node reports that another node has the key, or that the node cannot serve its keys now. */
const ELSEWHERE: ReadonlySet<string | undefined> = new Set([
  "MOVED",
  "ASK",
  "TRYAGAIN",
  "CLUSTERDOWN",
  "MASTERDOWN",
  "LOADING",
  "READONLY",
]);

/**
 * If a script fails with one of these codes, the script has written nothing. A script reads all its keys before its
 * first write. If writes are not possible, Redis refuses the first write.
 */
const BEFORE_WRITES: ReadonlySet<string | undefined> = new Set([...ELSEWHERE, "OOM", "MISCONF", "NOREPLICAS"]);

/** If Redis refuses a command or a script with one of these codes, the command or the script has not started. */
const NOT_BEGUN: ReadonlySet<string | undefined> = new Set([
  ...BEFORE_WRITES,
  ...["BUSY", "WRONGTYPE", "NOAUTH", "NOPERM"],
]);

/** The error codes that the service distinguishes. In a message, words of a script or a proxy can precede the code. */
const CODES = [...NOT_BEGUN, "NOSCRIPT", "WRONGPASS"];

/**
 * Matches one of `CODES`, or the first word if the text contains none of `CODES`. Text after a quotation mark is
 * ignored, because it may be input of a caller.
 */
const CODE = new RegExp(`^[^'"\`]*?\\b(${CODES.join("|")})\\b|^([A-Z]+)\\b`);

/**
 * Returns the code of a Redis error, such as NOAUTH. Returns undefined if the error is not a Redis error, or has no
 * code.
 */
export function errorCodeOf(error: unknown): string | undefined {
  const [, known, first] = (isRefusal(error) && CODE.exec(error.message)) || [];
  return known ?? first;
}

export function isAnswerTo(command: string, error: Error): boolean {
  return (error as { command?: { name?: string } }).command?.name === command;
}

export function isNoCluster(error: unknown): boolean {
  return isRefusal(error) && error.message.includes("cluster support disabled");
}

export function isPasswordRefusal(error: Error): boolean {
  const code = errorCodeOf(error);
  return code === "WRONGPASS" || code === "NOAUTH";
}

const IN_SCRIPT = "@user_script";

/** Returns whether Redis stopped a script before its first write, because the slot of its keys is migrating. */
function isKeyMoving({ message }: Error): boolean {
  return message.includes("non local key");
}

/** Returns whether an error proves that the command or script changed nothing. If false, a script may have written. */
export function changedNothing(error: Error): boolean {
  const code = errorCodeOf(error);
  if (!error.message.includes(IN_SCRIPT)) return NOT_BEGUN.has(code);
  return BEFORE_WRITES.has(code) || isKeyMoving(error);
}

/** Returns whether an error shows that the slot table of this process may be outdated. */
export function showsOutdatedSlots(error: unknown): boolean {
  return ELSEWHERE.has(errorCodeOf(error));
}

export function isMoving(error: unknown): boolean {
  return redirectionOf(error)?.kind === "wait";
}

/**
 * The node to which a refused command must be sent again. With `wait`, the caller pauses, and then sends the command to
 * the node that has the slot at that time.
 */
export type Redirection =
  | { readonly kind: "moved" | "ask"; readonly slot: number; readonly to: HostPort }
  | { readonly kind: "wait" };

/** Returns the destination to which a node of a Cluster redirects a command. Returns undefined for any other error. */
export function redirectionOf(error: unknown): Redirection | undefined {
  if (error instanceof KeysMoving) return { kind: "wait" };
  if (!isRefusal(error)) return undefined;
  const code = errorCodeOf(error);
  if (code === "TRYAGAIN" || isKeyMoving(error)) return { kind: "wait" };
  if (code !== "MOVED" && code !== "ASK") return undefined;
  // The address may be an IPv6 address in brackets.
  const [, slot, host = "", port] = /(?:MOVED|ASK) (\d+) \[?(\S*?)\]?:(\d+)(?!\S)/.exec(error.message) ?? [];
  if (port === undefined) return { kind: "wait" };
  return { kind: code === "MOVED" ? "moved" : "ask", slot: Number(slot), to: { host, port: Number(port) } };
}
