/** The store cannot be used as it is set up. The message says to an operator what to do; trying again changes nothing. */
export class StoreMisconfigured extends Error {
  override readonly name = "StoreMisconfigured";
}

/** A command was not sent to Redis. */
export class NotSent extends Error {
  override readonly name = "NotSent";
}

/** How ioredis begins the error of a command that it did not write to the connection. */
const NOT_WRITTEN = "Stream isn't writeable";

/** Whether an error is Redis' answer: it refuses the command. */
export function isRefusal(error: unknown): error is Error {
  return error instanceof Error && error.name === "ReplyError";
}

/** Whether it is certain that the command did not reach Redis. */
export function isNotSent(error: unknown): boolean {
  return error instanceof NotSent || (error instanceof Error && error.message.startsWith(NOT_WRITTEN));
}

/** Whether an error is the answer to a command. */
export function isAnswerTo(command: string, error: Error): boolean {
  return (error as { command?: { name?: string } }).command?.name === command;
}
