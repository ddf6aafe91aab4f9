/** The commands of Redis that are used beside the scripts. Each touches one key, its first argument. */
export interface PlainCommands {
  get(key: string): Promise<string | null>;
  set(key: string, value: string, condition: "XX"): Promise<"OK" | null>;
  hgetall(key: string): Promise<Record<string, string>>;
  hmget(key: string, ...fields: string[]): Promise<(string | null)[]>;
  zcard(key: string): Promise<number>;
  zrangebylex(key: string, min: string, max: string, limit: "LIMIT", offset: number, count: number): Promise<string[]>;
  xrevrange(key: string, end: string, start: string, count: "COUNT", limit: number): Promise<[string, string[]][]>;
}

/** The name of a command. */
export type CommandName = keyof PlainCommands;

/** The names of all commands. */
export const PLAIN_COMMANDS = Object.keys({
  get: true,
  set: true,
  hgetall: true,
  hmget: true,
  zcard: true,
  zrangebylex: true,
  xrevrange: true,
} satisfies Record<CommandName, true>) as readonly CommandName[];

/** The arguments of a command; the first is the key. */
export type CommandArgs<Name extends CommandName = CommandName> = Readonly<Parameters<PlainCommands[Name]>>;

/** What a command answers. */
export type Answer<Name extends CommandName> = Awaited<ReturnType<PlainCommands[Name]>>;

/** The store cannot be used as it is set up. The message says to an operator what to do; trying again changes nothing. */
export class StoreMisconfigured extends Error {
  override readonly name = "StoreMisconfigured";
}

/** A command was not sent to Redis. */
export class NotSent extends Error {
  override readonly name = "NotSent";
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

/** Whether an error is Redis' answer: it refuses the command. */
export function isRefusal(error: unknown): error is Error {
  return error instanceof Error && error.name === "ReplyError";
}

/** What Redis answers before it carries out a command or a script. */
const NOT_BEGUN =
  /^(OOM|READONLY|MISCONF|NOREPLICAS|MOVED|ASK|TRYAGAIN|CLUSTERDOWN|MASTERDOWN|LOADING|BUSY|WRONGTYPE|NOAUTH|NOPERM)\b/;

/** Errors with which only the first write of a script can fail. */
const FIRST_WRITE = /^(OOM|READONLY|MISCONF|NOREPLICAS)\b/;

/** Part of the error of a command that failed inside a script. */
const IN_SCRIPT = "@user_script";

/**
 * Whether a refused command or script has changed nothing. Of a script, only the errors of its first write say so: any
 * other may come after a write.
 *
 * A script fails with "non local key" while a key moves to another node. That is before its first write, too: scripts
 * look for every key before they write.
 */
export function changedNothing({ message }: Error): boolean {
  if (!message.includes(IN_SCRIPT)) return NOT_BEGUN.test(message);
  return FIRST_WRITE.test(message) || message.includes("non local key");
}

/** Whether it is certain that the command did not reach Redis. */
export function isNotSent(error: unknown): boolean {
  return error instanceof NotSent || (error instanceof Error && error.message.startsWith(NOT_WRITTEN));
}

/** Whether an error is the answer to a command. */
export function isAnswerTo(command: string, error: Error): boolean {
  return (error as { command?: { name?: string } }).command?.name === command;
}
