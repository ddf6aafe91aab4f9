import type { Redis } from "ioredis";

/**
 * Writes the commands of one turn of the event loop to a connection as one text, as ioredis' auto-pipelining does,
 * without its pipelines and its two promises for each command.
 */
export function batchWrites(redis: Redis): void {
  redis.on("connect", () => joinTexts(redis.stream));
}

/** Joins the texts that are written to a connection in one turn. Whatever else is written keeps its place between them. */
function joinTexts(connection: Redis["stream"]): void {
  const write = connection.write.bind(connection) as (...args: unknown[]) => boolean;
  const end = connection.end.bind(connection) as (...args: unknown[]) => typeof connection;
  let text = "";
  const flush = () => {
    if (text !== "") write(text);
    text = "";
  };
  connection.write = (data: unknown, ...more: unknown[]) => {
    if (typeof data !== "string" || more.length > 0) {
      flush();
      return write(data, ...more);
    }
    if (text === "") setImmediate(flush);
    text += data;
    return true;
  };
  connection.end = (...args: unknown[]) => {
    flush();
    return end(...args);
  };
}

/** How many times a connection is checked within the time that it may be silent. */
const LOOKS = 4;

/**
 * Ends a connection from which nothing has come for a time though answers are awaited, so that a new one is made.
 * ioredis has an option for this, `socketTimeout`, whose timer outlives its connection and ends the next one (5.11.1).
 *
 * @param silenceMs how long it may be silent, in milliseconds; what is ended has been silent up to a quarter longer
 */
export function dropWhenSilent(redis: Redis, silenceMs: number): void {
  redis.on("connect", () => {
    const { stream } = redis;
    let bytesRead = -1;
    let silent = 0;
    const look = () => {
      const isHeard = stream.bytesRead !== bytesRead;
      silent = isHeard || redis.commandQueue.length === 0 ? 0 : silent + 1;
      bytesRead = stream.bytesRead;
      // The first check may have come right after a command was sent.
      if (silent <= LOOKS || stream.destroyed) return;
      stream.destroy(new Error(`Redis does not answer: nothing has come for ${silenceMs} ms`));
    };
    // After the reads of this turn, so that answers which arrived while the process was busy count.
    const timer = setInterval(() => setImmediate(look), silenceMs / LOOKS);
    stream.once("close", () => clearInterval(timer));
  });
}
