import type { HostPort } from "./url.ts";

/*
 * How a command fails, and what Redis says then. It says so in texts, which are read here and nowhere else.
 */

/** The store cannot be used as it is set up. The message says to an operator what to do; trying again changes nothing. */
export class StoreMisconfigured extends Error {
  override readonly name = "StoreMisconfigured";
}

/** A command was not sent to Redis. */
export class NotSent extends Error {
  override readonly name: string = "NotSent";
}

/** A command was not sent to Redis, because the keys that it needs are on their way to another node of the Cluster. */
export class KeysMoving extends NotSent {
  override readonly name = "KeysMoving";
  constructor() {
    super("the keys are on their way to another node");
  }
}

/** A change was made, but it is not certain that enough replicas have it; the cause says why. */
export class NotConfirmed extends Error {
  override readonly name = "NotConfirmed";
  constructor(cause: unknown) {
    super("too few replicas confirm a change", { cause });
  }
}

/** How ioredis begins the error of a command that it did not write to the connection. */
const NOT_WRITTEN = "Stream isn't writeable";

/** Whether it is certain that the command did not reach Redis. */
export function isNotSent(error: unknown): boolean {
  return error instanceof NotSent || (error instanceof Error && error.message.startsWith(NOT_WRITTEN));
}

/** What ioredis says when a connection ended before Redis answered. */
const NOT_ANSWERED = /maxRetriesPerRequest|Connection is closed|Stream isn't writeable/;

/** The text of an error for an operator, who knows neither the options nor the states of ioredis. */
export function textOf(error: unknown): string {
  // Node tries every address of a host name.
  if (error instanceof AggregateError) return error.errors.map(textOf).join("; ");
  const text = error instanceof Error ? error.message : String(error);
  return !isRefusal(error) && NOT_ANSWERED.test(text) ? "the connection ended before Redis answered" : text;
}

/** Whether an error is Redis' answer: it refuses the command. */
export function isRefusal(error: unknown): error is Error {
  return error instanceof Error && error.name === "ReplyError";
}

/**
 * The words by which Redis says why it refuses a command. A managed service or a proxy may write them behind other words, as
 * in `ERR MOVED 1 HOST:PORT`; so do errors of scripts.
 */
const WORDS = [
  ...["MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN", "MASTERDOWN", "LOADING", "READONLY", "BUSY", "NOSCRIPT"],
  ...["OOM", "MISCONF", "NOREPLICAS", "WRONGTYPE", "NOAUTH", "WRONGPASS", "NOPERM"],
];

/** One of them, or else the first word. Behind a quotation mark Redis repeats what callers sent. */
const WORD = new RegExp(`^[^'"\`]*?\\b(${WORDS.join("|")})\\b|^([A-Z]+)\\b`);

/** The word by which Redis says why it refuses a command, such as NOAUTH; undefined for every other error. */
export function refusalWordOf(error: unknown): string | undefined {
  const [, known, first] = (isRefusal(error) && WORD.exec(error.message)) || [];
  return known ?? first;
}

/** Whether an error is the answer to a command. */
export function isAnswerTo(command: string, error: Error): boolean {
  return (error as { command?: { name?: string } }).command?.name === command;
}

/** Whether Redis says that it is no node of a Cluster. */
export function isNoCluster(error: unknown): boolean {
  return isRefusal(error) && error.message.includes("cluster support disabled");
}

/** Whether Redis refuses a connection because it wants another password, or one. */
export function isPasswordRefusal(error: Error): boolean {
  const word = refusalWordOf(error);
  return word === "WRONGPASS" || word === "NOAUTH";
}

/** What Redis answers for keys that another node has, or that this one cannot serve now. */
const ELSEWHERE = ["MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN", "MASTERDOWN", "LOADING", "READONLY"];

/**
 * What a script can be refused with before its first write only: it looks for every key before it writes, and Redis
 * checks before the first write whether writes are possible.
 */
const BEFORE_WRITES: ReadonlySet<string | undefined> = new Set([...ELSEWHERE, "OOM", "MISCONF", "NOREPLICAS"]);

/** What Redis answers before it carries out a command or a script. */
const NOT_BEGUN: ReadonlySet<string | undefined> = new Set([
  ...BEFORE_WRITES,
  ...["BUSY", "WRONGTYPE", "NOAUTH", "NOPERM"],
]);

/** Part of the error of a command that failed inside a script. */
const IN_SCRIPT = "@user_script";

/**
 * Whether a script fails because a key is on its way to another node. That is before its first write: scripts look for
 * every key before they write.
 */
function isKeyMoving({ message }: Error): boolean {
  return message.includes("non local key");
}

/** Whether a refused command or script has changed nothing. Other errors of a script may come after a write. */
export function changedNothing(refusal: Error): boolean {
  const word = refusalWordOf(refusal);
  if (!refusal.message.includes(IN_SCRIPT)) return NOT_BEGUN.has(word);
  return BEFORE_WRITES.has(word) || isKeyMoving(refusal);
}

/** What a node answers when it has lost a slot for good, or its part in the Cluster has changed. */
const OUTDATED: ReadonlySet<string | undefined> = new Set([
  "MOVED",
  "CLUSTERDOWN",
  "MASTERDOWN",
  "LOADING",
  "READONLY",
]);

/** Whether a refusal shows that the known slots may be out of date. */
export function showsOutdatedSlots(error: unknown): boolean {
  return OUTDATED.has(refusalWordOf(error));
}

/** Whether a command or script was not carried out because keys of its slot are on their way to another node. */
export function isMoving(error: unknown): boolean {
  return redirectionOf(error)?.kind === "wait";
}

/** Where a command that was not carried out is to be sent instead; `wait`: to the same node or another one, later. */
export type Redirection =
  | { readonly kind: "moved" | "ask"; readonly slot: number; readonly to: HostPort }
  | { readonly kind: "wait" };

/** What a node of a Cluster answers when it did not carry out a command; undefined for every other error. */
export function redirectionOf(error: unknown): Redirection | undefined {
  if (error instanceof KeysMoving) return { kind: "wait" };
  if (!isRefusal(error)) return undefined;
  const word = refusalWordOf(error);
  if (word === "TRYAGAIN" || isKeyMoving(error)) return { kind: "wait" };
  if (word !== "MOVED" && word !== "ASK") return undefined;
  // IPv6 addresses may stand in brackets.
  const [, slot, host = "", port] = /(?:MOVED|ASK) (\d+) \[?(\S*?)\]?:(\d+)(?!\S)/.exec(error.message) ?? [];
  if (port === undefined) return { kind: "wait" };
  return { kind: word === "MOVED" ? "moved" : "ask", slot: Number(slot), to: { host, port: Number(port) } };
}
