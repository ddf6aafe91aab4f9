import type { Redis } from "ioredis";

/**
 * Sends the commands of one event loop turn in one write. The auto-pipelining of ioredis has the same effect, but
 * creates more objects.
 */
export function batchWrites(redis: Redis): void {
  redis.on("connect", () => joinWrites(redis.stream));
}

/**
 * Joins the strings that are written in one event loop turn. If other data is written between two strings, all data is
 * sent in the order of the writes.
 */
function joinWrites(connection: Redis["stream"]): void {
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

const CHECKS = 4;

/**
 * Closes a connection if commands wait for answers, but no data arrives for `silenceMs` milliseconds. The connection
 * may stay open for up to 50 % longer. After the close, ioredis opens a new connection. The ioredis option
 * `socketTimeout` (5.11.1) cannot be used, because its timer closes the new connection as well.
 */
export function dropWhenSilent(redis: Redis, silenceMs: number): void {
  redis.on("connect", () => {
    const { stream } = redis;
    let bytesRead = -1;
    let silent = 0;
    const check = () => {
      const hasData = stream.bytesRead !== bytesRead;
      silent = hasData || redis.commandQueue.length === 0 ? 0 : silent + 1;
      bytesRead = stream.bytesRead;
      // A command may have been sent immediately before the first check without data, so this check does not count.
      if (silent <= CHECKS || stream.destroyed) return;
      stream.destroy(new Error(`Redis does not answer: no data for ${silenceMs} ms`));
    };
    // `setImmediate` runs the check after the event loop has read the data that arrived while the process was busy.
    const timer = setInterval(() => setImmediate(check), silenceMs / CHECKS);
    stream.once("close", () => clearInterval(timer));
  });
}
